"""Where a call with tensors of several devices ends up, or the error that PyTorch raises for it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import SimulatedDevice, device_of, simulated_device_of
from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.rules.op_plans import Plan

if TYPE_CHECKING:
    from pytest_evalcheck.devices.modes.function_mode import SimulationFunctionMode


_SAME = "Expected all tensors to be on the same device"
_NAMES_ARGUMENT_FIRST = tuple(int(each) for each in torch.__version__.split(".")[:2]) >= (2, 9)


def resolve(function: SimulationFunctionMode, plan: Plan, func: Any, args: Any, kwargs: Any) -> SimulatedDevice | None:
    """The one device of a call, as a place; None is the CPU. Raises what PyTorch raises where there is none."""
    named = list(_named(func, args, kwargs))
    for _, tensor, _ in named:
        _require_open(function, tensor)
    if plan.special == "index":
        return _indexed(func, named)
    if plan.free:
        named = [each for each in named if each[0] not in plan.free]
    if not named:
        return None
    if plan.anywhere:
        return next((place for _, tensor, _ in named if (place := simulated_device_of(tensor)) is not None), None)
    return _together(plan, func, named)


def _require_open(function: SimulationFunctionMode, tensor: Tensor) -> None:
    """Hold that the simulation has the device of a tensor, which an earlier one may have left."""
    place = simulated_device_of(tensor)
    if place is None or place.open:
        return
    if function.simulation.forked:
        function.simulation.refuse_fork(place.type)
    raise CannotSimulate(
        f"a tensor on {place.device}",
        f"it was left by an earlier simulate({place.type!r}), and the one that is open has "
        f"{function.simulation.names()}; move it with .cpu() before that one ends.",
    )


def _named(func: Any, args: Any, kwargs: Any) -> Iterator[tuple[str, Tensor, bool]]:
    """Every tensor of a call: the name of its argument, and whether it is written."""
    for number, argument in enumerate(func._schema.arguments):
        value = args[number] if number < len(args) else kwargs.get(argument.name)
        written = argument.alias_info is not None and argument.alias_info.is_write
        if isinstance(value, Tensor):
            yield argument.name, value, written
        elif isinstance(value, (list, tuple)):
            for each in value:
                if isinstance(each, Tensor):
                    yield argument.name, each, written


def _together(plan: Plan, func: Any, named: list[tuple[str, Tensor, bool]]) -> SimulatedDevice | None:
    """The general rule: CPU tensors without dimensions go with any device, unless they are written."""
    common: SimulatedDevice | None = None
    decided, by = False, named[0]
    for each in named:
        _, tensor, written = each
        place = simulated_device_of(tensor)
        movable = place is None and tensor.dim() == 0 and not written and not plan.strict
        if not decided:
            common, by, decided = place, each, not movable
        elif place is not common and not movable:
            raise RuntimeError(_mismatch(plan, func, by, each))
    return common


def _mismatch(plan: Plan, func: Any, first: tuple[str, Tensor, bool], other: tuple[str, Tensor, bool]) -> str:
    """TensorIterator names both devices; CUDA's generated wrappers name the argument too, in words that changed."""
    here, there = device_of(first[1]), device_of(other[1])
    text = f"{_SAME}, but found at least two devices, {here} and {there}!"
    if plan.pointwise or "cuda" not in (here.type, there.type):
        return text
    method = func._schema.name.replace("aten::", "wrapper_CUDA_")
    if _NAMES_ARGUMENT_FIRST:
        got = f"but got {other[0]} is on {there}, different from other tensors on {here}"
        return f"{_SAME}, {got} (when checking argument in method {method})"
    return f"{text} (when checking argument for argument {other[0]} in method {method})"


def _indexed(func: Any, named: list[tuple[str, Tensor, bool]]) -> SimulatedDevice | None:
    """The indexed tensor decides. An index that is read with may be on the CPU, one that is written at anywhere.

    Values and a mask are with the indexed tensor; a value without dimensions may be anywhere.
    """
    place, device = simulated_device_of(named[0][1]), device_of(named[0][1])
    reads = "_put" not in func._schema.name
    for name, tensor, _ in named[1:]:
        here = simulated_device_of(tensor)
        if here is place:
            continue
        if name == "indices":
            if reads and here is not None:
                raise RuntimeError(
                    f"indices should be either on cpu or on the same device as the indexed tensor ({device})"
                )
        elif name == "mask":
            raise RuntimeError(
                "expected self and mask to be on the same device, "
                f"but got mask on {device_of(tensor)} and self on {device}"
            )
        elif tensor.dim():
            raise RuntimeError(f"{_SAME}, but found at least two devices, {device} and {device_of(tensor)}!")
    return place


def one_by_one(
    function: SimulationFunctionMode, plan: Plan, func: Any, args: Any, kwargs: Any
) -> list[SimulatedDevice | None]:
    """The device of each call that a call with lists stands for: the first of all lists, the second of all lists."""
    lists: dict[str, list[tuple[str, Tensor, bool]]] = {}
    alone = []
    for each in _named(func, args, kwargs):
        name, tensor, _ = each
        _require_open(function, tensor)
        if name in _lists(func):
            lists.setdefault(name, []).append(each)
        else:
            alone.append(each)
    return [_together(plan, func, [*row, *alone]) for row in zip(*lists.values(), strict=False)]


@functools.cache
def _lists(func: Any) -> frozenset[str]:
    return frozenset(each.name for each in func._schema.arguments if str(each.type).startswith("List"))


def missing_kernel(func: Any, error: Exception) -> CannotSimulate | None:
    """What to say where the CPU unsupported_dtypes a kernel that the device may have; None for any other error."""
    text = str(error)
    halves = any(
        f"not implemented for '{each}'" in text for each in ("Half", "BFloat16", "Float8_e4m3fn", "Float8_e5m2")
    )
    # A kernel that is named after the CPU has a twin on the device, which may know the dtype.
    if halves or re.search(r'"\w*cpu\w*" not implemented for', text) or "with arguments from the 'CPU' backend" in text:
        return CannotSimulate(
            str(func), f"it runs on the CPU here, which has no kernel for it ({text.splitlines()[0][:120]})."
        )
    return None
