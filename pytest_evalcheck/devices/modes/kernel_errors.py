"""An error of a CPU kernel: what the device raises for it, or the result of a kernel whose assert fails later."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pytest_evalcheck.devices.device_marks import SimulatedDevice, mark
from pytest_evalcheck.devices.device_memory import does_not_fit
from pytest_evalcheck.devices.modes.indexing import record_indexing
from pytest_evalcheck.devices.rules import op_overrides
from pytest_evalcheck.devices.rules.device_asserts import valid_arguments
from pytest_evalcheck.devices.rules.device_checks import missing_kernel
from pytest_evalcheck.devices.rules.op_plans import Plan
from pytest_evalcheck.devices.state import ThreadState


def after_error(
    state: ThreadState, plan: Plan, device: SimulatedDevice | None, func: Any, args: Any, kwargs: Any, error: Exception
) -> Any:
    """The result of an operator whose kernel on `device` would fail an assert, computed with valid values.

    Raises what the device raises for any other error.
    """
    if device is None:
        raise error
    if device.type == "cuda" and func._schema.name in op_overrides.COUNTS_INTEGERS:
        return mark(func(args[0].double(), *args[1:], **kwargs).to(args[0].dtype), device)
    missing = missing_kernel(func, error) or does_not_fit(device.memory, error)
    if missing is not None:
        raise missing from error
    found = None
    if device.type == "cuda" and state.asynchrony.asserts.deferred:
        found = valid_arguments(func, args, kwargs)
    if found is None:
        raise error
    args, kwargs, assertion = found
    out = func(*args, **kwargs)
    if not plan.results.alias:
        for item in out if isinstance(out, (list, tuple)) else (out,):
            if isinstance(item, Tensor):
                mark(item, device)
    state.last_device = device
    if plan.effects is not None and plan.effects.reads_indices:  # before the kernel
        record_indexing(state, func, args, kwargs, device)
    state.asynchrony.kernel_fails(device, assertion)
    return out
