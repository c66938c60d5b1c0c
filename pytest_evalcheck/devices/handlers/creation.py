"""Handlers for what makes tensors: on the device asked for, or on the default one."""
# ruff: noqa: D103  (all handlers have one signature, and are named after what they handle)

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils import _device

from pytest_evalcheck.devices.device_marks import CPU, PINNED, SimulatedDevice, mark, simulated_device_of
from pytest_evalcheck.devices.modes.function_mode import SimulationFunctionMode, handles

# Functions that follow a default device, by name, as not every release has all of them.
FACTORIES = (
    "arange bartlett_window blackman_window empty empty_permuted empty_quantized empty_strided eye full "
    "hamming_window hann_window kaiser_window linspace logspace ones rand randint randn randperm range "
    "scalar_tensor sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor "
    "sparse_csc_tensor sparse_csr_tensor tril_indices triu_indices zeros fft.fftfreq fft.rfftfreq "
    "nested.nested_tensor"
)


def _named(names: list[str]) -> list[Any]:
    found = []
    for name in names:
        owner: Any = torch
        for part in name.split("."):
            owner = getattr(owner, part, None)
        if owner is not None:
            found.append(owner)
    return found


def wanted(mode: SimulationFunctionMode, kwargs: dict[str, Any]) -> tuple[bool, SimulatedDevice | None]:
    """Whether a call is for the CPU or a simulated device (not for meta, say), and which.

    Takes what only a real device would understand out of `kwargs`, or puts the CPU in.
    """
    device = kwargs.get("device")
    if device is None:
        device = default_device()
        if device is None:
            return True, None
    place, ours = mode.simulation.find(device)
    if ours:
        kwargs["device"] = CPU
    return ours, place


def default_device() -> torch.device | None:
    """The device of the innermost `with torch.device(...)` or of `torch.set_default_device`, or None."""
    if not torch._C._len_torch_function_stack():
        return None
    for mode in reversed(torch.overrides._get_current_function_mode_stack()):
        if isinstance(mode, _device.DeviceContext):
            return mode.device
    return None


@handles(*_named(FACTORIES.split()))
def create(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """A new tensor. Also any other function that was given `device=` or `pin_memory=`."""
    ours, place = wanted(mode, kwargs)
    if not ours:
        return func(*args, **kwargs)
    pinned = kwargs.pop("pin_memory", False)
    generator = kwargs.get("generator")
    if generator is not None:
        mode.simulation.check_generator(generator, place)
    out = made(mode, func, args, kwargs)
    if not isinstance(out, Tensor):
        return out
    if place is not None:
        refuse(out, place)
    if place is not simulated_device_of(out):
        mark(out, place)
    return pin(out) if pinned else out


def made(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What a factory makes, which is for the caller to mark."""
    before, mode.creating = mode.creating, True
    try:
        return func(*args, **kwargs)
    finally:
        mode.creating = before


def refuse(tensor: Tensor, place: SimulatedDevice) -> None:
    if tensor.dtype in place.unsupported_dtypes:
        raise TypeError(place.unsupported_dtypes[tensor.dtype])


def pin(tensor: Tensor) -> Tensor:
    """Remember that a CPU tensor lies in pinned memory."""
    setattr(tensor.untyped_storage(), PINNED, True)
    return tensor


@handles(torch.tensor, torch.as_tensor, torch.asarray)
def of_data(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    data = args[0] if args else kwargs.get("data", kwargs.get("obj"))
    if isinstance(data, Tensor):
        return _of_tensor(mode, func, data, args, kwargs)
    ours, place = wanted(mode, kwargs)
    if not ours:
        return func(*args, **kwargs)
    pinned = kwargs.pop("pin_memory", False)
    wants_grad = kwargs.pop("requires_grad", False)
    out = made(mode, func, args, kwargs)
    if place is not None:
        refuse(out, place)
        out = out.clone() if func is not torch.tensor else out  # the data may be a NumPy array that lives on
        mark(out, place)
        mode.record_transfer(out, None, place, waits=False)
    if wants_grad:
        out.requires_grad_()
    return pin(out) if pinned else out


def _of_tensor(mode: SimulationFunctionMode, func: Any, data: Tensor, args: Any, kwargs: dict[str, Any]) -> Any:
    device = kwargs.get("device")
    if device is None and func is torch.tensor:
        kwargs.pop("device", None)
        return func(*args, **kwargs)
    device = (
        default_device() if device is None and func is torch.as_tensor and simulated_device_of(data) is None else device
    )
    if device is None:
        return func(*args, **kwargs)
    place, ours = mode.simulation.find(device)
    if not ours:
        return func(*args, **kwargs)
    kwargs.pop("device", None)
    dtype = kwargs.pop("dtype", None) or (args[1] if len(args) > 1 else None) or data.dtype
    if func is torch.tensor:
        data = data.detach()
    copy = func is torch.tensor or bool(kwargs.pop("copy", False))
    out = mode.move(data, place, dtype, copy=copy)
    return out.requires_grad_() if kwargs.get("requires_grad") else out


@handles(Tensor.new_tensor, Tensor.new)
def new_of(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Made from data, on the device of the tensor unless told otherwise."""
    place = simulated_device_of(args[0])
    if kwargs.get("device") is not None:
        place, ours = mode.simulation.find(kwargs["device"])
        if not ours:
            return func(*args, **kwargs)
        kwargs["device"] = CPU
    if func == Tensor.new_tensor and len(args) > 1 and isinstance(args[1], Tensor):
        dtype = kwargs.get("dtype") or args[1].dtype
        out = mode.move(args[1].detach(), place, dtype, copy=True)
        return out.requires_grad_() if kwargs.get("requires_grad") else out
    wants_grad = kwargs.pop("requires_grad", False)
    out = made(mode, func, args, kwargs)
    if place is not None and simulated_device_of(out) is not place:
        refuse(out, place)
        mark(out, place)
        if func == Tensor.new_tensor:
            mode.record_transfer(out, None, place, waits=False)
    return out.requires_grad_() if wants_grad else out
