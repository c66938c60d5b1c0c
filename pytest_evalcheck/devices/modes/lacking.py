"""An operator that some device does not have: refused there, or run on the CPU, which costs transfers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor

from pytest_evalcheck.devices.device_marks import SimulatedDevice, mark, simulated_device_of
from pytest_evalcheck.devices.ledger import call_site
from pytest_evalcheck.devices.rules.missing_kernels import (
    FALLS_BACK,
    RESIZED_BY_CPU,
    dispatch_key,
    missing_kernel_error,
    runs_on_cpu_always,
)
from pytest_evalcheck.devices.rules.unsupported_dtypes import require_dtype
from pytest_evalcheck.devices.state import ThreadState

NOT_SPECIAL: Any = object()
"""Value that a treatment returns where the general rule applies after all."""


def run_lacking(mode: Any, plan: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Raise where the device of a call lacks the operator. On MPS it may run on the CPU instead."""
    tensors = list(_tensors([*args, *kwargs.values()]))
    key = dispatch_key(tensors)
    missing = plan.lacks.get(key)
    if missing is None:
        return NOT_SPECIAL
    state = mode.state
    for tensor in tensors:
        state.simulation.require_available(tensor)
    registered = require_fallback(state, missing, key)
    makes_results = bool(registered) or missing in (func.name().removeprefix("aten::"), *RESIZED_BY_CPU)
    return _run_on_cpu(state, func, args, kwargs, makes_results=makes_results)


def require_fallback(state: ThreadState, missing: str, key: str) -> str:
    """Raise unless what is missing may run on the CPU; then warn of it.

    Returns the operator that is registered to run there. An empty string means that the environment says so.
    """
    registered = runs_on_cpu_always(missing, call_site()[2])
    if key != "MPS" or not (registered or state.simulation.falls_back):
        raise missing_kernel_error(missing, key)
    state.simulation.warn_once("fallback", FALLS_BACK.format(name=registered or missing))
    return registered


def _run_on_cpu(state: ThreadState, func: Any, args: Any, kwargs: Any, *, makes_results: bool) -> Any:
    """Run as aten/src/ATen/native/CPUFallback.cpp does: arguments to the CPU, then results and writes back.

    Tensors may be on several devices. The first one, or else the first in a list, determines where the results are.
    """
    given, written = [], []
    for number, argument in enumerate(func._schema.arguments):
        found = list(_tensors([args[number] if number < len(args) else kwargs.get(argument.name)]))
        given += found
        if argument.alias_info is not None and argument.alias_info.is_write:
            written += found
    state.last_device = device = _target(args, kwargs)
    out = func(*args, **kwargs)
    ids = {id(tensor) for tensor in written}
    results = list(_tensors([out]))
    new = [item for item in results if id(item) not in ids]
    for item in new:
        if device is not None:
            require_dtype(item.dtype, device)
        mark(item, device)
    if not makes_results:  # they are arguments of the operator that is missing: made on the device before, and written
        given += results
    record_fallback(state, given, [*written, *new], device)
    return out


def record_fallback(
    state: ThreadState, given: list[Tensor], back: list[Tensor], device: SimulatedDevice | None
) -> None:
    """Write into the ledger that `given` went to the CPU, and `back` to the device."""
    for tensor in given:
        if (source := simulated_device_of(tensor)) is not None:
            state.record_transfer(tensor, source, None, waits=True)
    for tensor in back:
        if simulated_device_of(tensor) is not None:
            state.record_transfer(tensor, None, device, waits=False)


def _target(args: Any, kwargs: Any) -> SimulatedDevice | None:
    values = [*args, *kwargs.values()]
    alone = next((value for value in values if isinstance(value, Tensor)), None)
    first = next(_tensors(values), None) if alone is None else alone
    return None if first is None else simulated_device_of(first)


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)
