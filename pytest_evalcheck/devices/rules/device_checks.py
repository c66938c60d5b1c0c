"""Device of a call with tensors on several devices, or the error that PyTorch raises for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from torch import Tensor

from pytest_evalcheck.devices.device_marks import (
    CPU,
    SimulatedDevice,
    device_of,
    first_simulated_device,
    simulated_device_of,
)
from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.rules.mismatch_texts import SAME, Argument, mismatch_text
from pytest_evalcheck.devices.rules.missing_kernels import dispatch_key, missing_kernel_error
from pytest_evalcheck.devices.rules.op_plans import DeviceRule, Plan
from pytest_evalcheck.devices.state import Simulation

BY_PARTS: Any = object()
"""Result of `common_device` where the operators that a composite is made of decide."""


def common_device(
    simulation: Simulation, plan: Plan, func: Any, args: Any, kwargs: dict[str, Any]
) -> SimulatedDevice | None:
    """The one device of a call; None is the CPU. Raises PyTorch's error where there is no such device."""
    found = list(_tensor_arguments(simulation, func, args, kwargs))
    rule = plan.rule
    if rule.indexed:
        return _indexed(func, found)
    if plan.lacks:
        key = dispatch_key(argument.tensor for argument in found)
        if "Sparse" in key and key in plan.lacks:
            raise missing_kernel_error(plan.lacks[key], key)
    found = [argument for argument in found if argument.name not in rule.free]
    if rule.first_decides and simulated_device_of(found[0].tensor) is None:
        return _same_device(rule, func, [found[0]._replace(written=True), *found[1:]])
    if rule.by_parts and len({simulated_device_of(argument.tensor) for argument in found}) > 1:
        return cast(None, BY_PARTS)
    if rule.mixed:
        return first_simulated_device([argument.tensor for argument in found])
    return _same_device(rule, func, found)


def row_devices(
    simulation: Simulation, plan: Plan, func: Any, args: Any, kwargs: dict[str, Any]
) -> list[SimulatedDevice | None]:
    """The device of each row of a call with lists: row 0 is the first tensor of all lists, and so on."""
    lists: dict[str, list[Argument]] = {}
    single = []
    for argument in _tensor_arguments(simulation, func, args, kwargs):
        if argument.in_list:
            lists.setdefault(argument.name, []).append(argument)
        else:
            single.append(argument)
    return [_same_device(plan.rule, func, [*row, *single]) for row in zip(*lists.values(), strict=False)]


def _tensor_arguments(simulation: Simulation, func: Any, args: Any, kwargs: dict[str, Any]) -> Iterator[Argument]:
    for number, argument in enumerate(func._schema.arguments):
        value = args[number] if number < len(args) else kwargs.get(argument.name)
        written = argument.alias_info is not None and argument.alias_info.is_write
        items = value if isinstance(value, (list, tuple)) else None
        for item in (value,) if items is None else items:
            if isinstance(item, Tensor):
                simulation.require_available(item)
                yield Argument(argument.name, item, written, items is not None)


def _same_device(rule: DeviceRule, func: Any, arguments: list[Argument]) -> SimulatedDevice | None:
    """The general rule: CPU tensors without dimensions go with any device, unless they are written."""
    common: SimulatedDevice | None = None
    decisive: Argument | None = None
    for argument in arguments:
        device = simulated_device_of(argument.tensor)
        allowed = not argument.written and (not rule.strict or argument.name == rule.scalar)
        if device is None and argument.tensor.dim() == 0 and allowed:
            continue
        if decisive is None:
            common, decisive = device, argument
        elif device is not common:
            raise RuntimeError(mismatch_text(func, rule.pointwise, arguments, decisive, argument))
    return common


def _indexed(func: Any, arguments: list[Argument]) -> SimulatedDevice | None:
    """The indexed tensor decides. An index to read may be on the CPU too, an index to write on any device.

    Values and a mask are on the device of the indexed tensor; a value without dimensions may be on any.
    """
    first, *others = arguments
    common, device = simulated_device_of(first.tensor), device_of(first.tensor)
    for argument in others:
        other = simulated_device_of(argument.tensor)
        if other is common:
            continue
        if argument.name == "indices":
            if other is not None and "_put" not in func._schema.name:
                raise RuntimeError(
                    f"indices should be either on cpu or on the same device as the indexed tensor ({device})"
                )
        elif argument.name == "mask":
            raise RuntimeError(
                "expected self and mask to be on the same device, "
                f"but got mask on {device_of(argument.tensor)} and self on {device}"
            )
        elif argument.tensor.dim():
            raise RuntimeError(f"{SAME}, but found at least two devices, {device} and {device_of(argument.tensor)}!")
    return common


def require_generator(generator: Any, device: SimulatedDevice | Tensor | None, *, exact: bool = False) -> None:
    """Raise unless a generator is on the kind of device that it draws for. ATen/core/Generator.h, check_generator.

    `exact` demands the same index: aten/src/ATen/native/TensorFactories.cpp, randperm_out.
    """
    device = simulated_device_of(device) if isinstance(device, Tensor) else device
    expected = CPU if device is None else device.torch_device
    if exact and generator.device != expected:
        raise RuntimeError(f"Expected a '{expected}' generator device but found '{generator.device}'")
    if generator.device.type != expected.type:
        raise RuntimeError(
            f"Expected a '{expected.type}' device type for generator but found '{generator.device.type}'"
        )


def require_same_memory(tensor: Tensor, source: Any) -> None:
    """Raise unless the memory that a tensor is given is on its device."""
    device = device_of(tensor)
    other = device_of(source) if isinstance(source, Tensor) else source.device
    if other != device:
        raise RuntimeError(
            f'Attempted to set the storage of a tensor on device "{device}" to a storage on different '
            f'device "{other}".  This is no longer allowed; the devices must match.'
        )


def missing_kernel(func: Any, error: Exception) -> CannotSimulate | None:
    """The error to raise where the CPU does not have a kernel that the device may have; None for any other error."""
    text = str(error)
    halves = any(
        f"not implemented for '{dtype}'" in text for dtype in ("Half", "BFloat16", "Float8_e4m3fn", "Float8_e5m2")
    )
    # A kernel that is named after the CPU has a twin on the device, which may support the dtype.
    if halves or re.search(r'"\w*cpu\w*" not implemented for', text) or "with arguments from the 'CPU' backend" in text:
        return CannotSimulate(
            str(func), f"it runs on the CPU here, which has no kernel for it ({text.splitlines()[0][:120]})."
        )
    return None
