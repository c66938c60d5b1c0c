"""Handlers for functions that create tensors: on the device that is named, or on the default one."""
# ruff: noqa: D103  (all handlers have one signature, and are named after what they handle)

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils import _device

from pytest_evalcheck.devices.device_marks import CPU, SimulatedDevice, mark, mark_pinned, simulated_device_of
from pytest_evalcheck.devices.device_memory import does_not_fit, is_out_of_memory
from pytest_evalcheck.devices.handlers.transfers import transfer
from pytest_evalcheck.devices.handlers.without_dispatch import PLAIN_VALUES, is_alone, undispatched
from pytest_evalcheck.devices.random_numbers import drawn_on
from pytest_evalcheck.devices.rules.device_checks import require_generator
from pytest_evalcheck.devices.rules.unsupported_dtypes import require_dtype
from pytest_evalcheck.devices.state import ThreadState, handles

# PyTorch's own list of functions that follow a default device; those that take data have a handler below.
_SHORT = 32
_DRAWS = {torch.rand, torch.randn, torch.randint, torch.randperm, torch.normal}
_DRAWS |= {torch.rand_like, torch.randn_like, torch.randint_like}
FACTORIES = _device._device_constructors() - {torch.tensor, torch.as_tensor, torch.asarray}


def default_device() -> torch.device | None:
    """The device of the innermost `with torch.device(...)` or of `torch.set_default_device`, or None."""
    if torch._C._len_torch_function_stack():
        for mode in reversed(torch.overrides._get_current_function_mode_stack()):
            if isinstance(mode, _device.DeviceContext):
                return mode.device
    return None


def requested_device(state: ThreadState, kwargs: dict[str, Any]) -> tuple[SimulatedDevice | None, bool]:
    """Return `Simulation.find` of the `device=` of a call, and replace a simulated one in `kwargs` by the CPU."""
    device = kwargs.get("device")
    if device is None:
        device = default_device()
        if device is None:
            return None, True
    found, ours = state.simulation.find(device)
    if ours:
        kwargs["device"] = CPU
    return found, ours


def _call_factory(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """A new tensor, which the caller marks. Of sizes and a few numbers, the mode below autograd has nothing to see."""
    if (
        is_alone(state)
        and not state.simulation.is_limited
        and _is_written_out(args)
        and _is_written_out(kwargs.values())
    ):
        return undispatched(func, args, kwargs)
    before, state.creating = state.creating, True
    try:
        return func(*args, **kwargs)
    finally:
        state.creating = before


def _is_written_out(values: Any) -> bool:
    """Return whether values are numbers and the like, or short nested lists of them: a look at long ones takes time."""
    for value in values:
        kind = type(value)
        if kind is list or kind is tuple:
            if len(value) > _SHORT or not _is_written_out(value):
                return False
        elif kind not in PLAIN_VALUES and kind is not torch.device:
            return False
    return True


@handles(*FACTORIES)
def create(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """A new tensor. Also any other function with `device=` or `pin_memory=`."""
    device, ours = requested_device(state, kwargs)
    if not ours:
        return func(*args, **kwargs)
    pinned = kwargs.pop("pin_memory", False)
    if kwargs.get("generator") is not None:
        require_generator(kwargs["generator"], device, exact=func is torch.randperm)
    if not state.simulation.is_limited:
        return _created(state, func, args, kwargs, device, pinned)
    generator = torch.default_generator if device is None else device.generator
    before = generator.get_state()
    try:
        return _created(state, func, args, kwargs, device, pinned)
    except RuntimeError as error:
        if is_out_of_memory(error):  # a device allocates before it draws
            generator.set_state(before)
        raise


def _created(
    state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any], device: SimulatedDevice | None, pinned: bool
) -> Any:
    draws = device is not None and func in _DRAWS and kwargs.get("generator") is None
    try:
        with drawn_on(device) if draws and device is not None else nullcontext():
            out = _call_factory(state, func, args, kwargs)
    except RuntimeError as error:
        full = None if device is None else does_not_fit(device.memory, error)
        if full is None:
            raise
        raise full from None
    if not isinstance(out, Tensor):
        return out
    require_dtype(out.dtype, device)
    if device is not simulated_device_of(out):
        mark(out, device)
    return mark_pinned(out) if pinned else out


@handles(torch.tensor, torch.as_tensor, torch.asarray)
def create_from_data(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    data = args[0] if args else kwargs.get("data", kwargs.get("obj"))
    if isinstance(data, Tensor):
        return _create_from_tensor(state, func, data, args, kwargs)
    device, ours = requested_device(state, kwargs)
    if not ours:
        return func(*args, **kwargs)
    pinned, requires_grad = kwargs.pop("pin_memory", False), kwargs.pop("requires_grad", False)
    out = _call_factory(state, func, args, kwargs)
    if device is not None:
        require_dtype(out.dtype, device)
        # The memory of as_tensor and asarray may be that of a NumPy array, which stays on the CPU.
        out = mark(out if func is torch.tensor else out.clone(), device)
        state.record_upload(out, device)
    if requires_grad:
        out.requires_grad_()
    return mark_pinned(out) if pinned else out


def _create_from_tensor(state: ThreadState, func: Any, data: Tensor, args: Any, kwargs: dict[str, Any]) -> Any:
    wanted = kwargs.pop("device", None)
    if wanted is None and func is torch.as_tensor and simulated_device_of(data) is None:
        wanted = default_device()
    if wanted is None:
        return func(*args, **kwargs)
    device, ours = state.simulation.find(wanted)
    if not ours:
        return func(*args, **kwargs, device=wanted)
    dtype = kwargs.pop("dtype", None) or (args[1] if len(args) > 1 else None)
    copy = func is torch.tensor or bool(kwargs.pop("copy", False))
    out = transfer(state, data.detach() if func is torch.tensor else data, device, dtype, copy=copy)
    return out.requires_grad_() if kwargs.get("requires_grad") else out


@handles(Tensor.new_tensor, Tensor.new)
def new_like(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Created from data, on the device of the tensor where no other is named."""
    device = simulated_device_of(args[0])
    if kwargs.get("device") is not None:
        device, ours = state.simulation.find(kwargs["device"])
        if not ours:
            return func(*args, **kwargs)
        kwargs["device"] = CPU
    requires_grad = kwargs.pop("requires_grad", False)
    if func == Tensor.new_tensor and len(args) > 1 and isinstance(args[1], Tensor):
        out = transfer(state, args[1].detach(), device, kwargs.get("dtype"), copy=True)
    else:
        out = _call_factory(state, func, args, kwargs)
        if device is not None and simulated_device_of(out) is not device:
            require_dtype(out.dtype, device)
            mark(out, device)
            if func == Tensor.new_tensor:
                state.record_upload(out, device)
    return out.requires_grad_() if requires_grad else out
