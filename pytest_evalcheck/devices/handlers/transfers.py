"""Handlers for functions that move tensors from one device to another."""
# ruff: noqa: ARG001, D103  (all handlers have one signature, and are named after what they handle)

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from pytest_evalcheck.devices.device_marks import (
    CPU,
    PINNED,
    SimulatedDevice,
    device_of,
    is_wrapper,
    mark,
    mark_pinned,
    simulated_device_of,
)
from pytest_evalcheck.devices.handlers.single_kernels import new_results
from pytest_evalcheck.devices.handlers.without_dispatch import is_alone, is_plain, nothing_is_derived, undispatched
from pytest_evalcheck.devices.rules.unsupported_dtypes import require_dtype
from pytest_evalcheck.devices.state import ACTIVE, NO_TARGET, ThreadState, handles


def transfer(
    state: ThreadState,
    tensor: Tensor,
    device: SimulatedDevice | None,
    dtype: torch.dtype | None = None,
    *,
    copy: bool = False,
    **options: Any,
) -> Tensor:
    """Do as `Tensor.to` does, to a simulated device or to the CPU (None)."""
    source = simulated_device_of(tensor)
    dtype = tensor.dtype if dtype is None else dtype
    if tensor.is_meta:  # aten/src/ATen/native/Copy.cpp; nn.Module.to adds a way out to this text
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if source is device:
        if dtype is tensor.dtype and not copy and options.keys() <= {"non_blocking"}:
            return tensor
        return Tensor.to(tensor, dtype=dtype, copy=copy, **options)
    if dtype is not tensor.dtype and tensor.requires_grad and torch.is_grad_enabled():
        # A hook may not change a dtype, so that the gradient is moved and cast in two steps too.
        if source is not None and dtype in source.unsupported_dtypes:
            return Tensor.to(transfer(state, tensor, device, copy=copy, **options), dtype=dtype)
        return transfer(state, Tensor.to(tensor, dtype=dtype), device, **options)
    require_dtype(dtype, device)
    moved = _copied(state, tensor, device, {"dtype": dtype, "copy": True, **options})
    if moved.requires_grad and moved.grad_fn is not None:
        moved.grad_fn.register_prehook(_ReturnGradients(source))
    non_blocking = bool(options.get("non_blocking"))
    from_cuda = device is None and source is not None and source.type == "cuda"
    if non_blocking and from_cuda and moved.layout is torch.strided and not is_wrapper(moved):
        mark_pinned(moved)  # aten/src/ATen/native/TensorConversions.cpp, pin_out
    in_flight = state.asynchrony.copied(tensor, moved, source, device, non_blocking=non_blocking)
    waits = device is None and not in_flight
    state.record_transfer(moved, source, device, waits=waits, non_blocking=non_blocking)
    return moved


def _copied(state: ThreadState, tensor: Tensor, device: SimulatedDevice | None, options: dict[str, Any]) -> Tensor:
    if is_alone(state) and nothing_is_derived() and is_plain(tensor):
        moved = undispatched(Tensor.to, (tensor,), options)
        state.last_device = device
        return mark(moved, device)
    before, state.target = state.target, device
    try:
        return Tensor.to(tensor, **options)
    finally:
        state.target = before


class _ReturnGradients:
    """Hook that moves a gradient to the device of the tensor: autograd does not know the simulated devices."""

    def __init__(self, device: SimulatedDevice | None) -> None:
        self.device = device

    def __call__(self, gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...] | None:
        state = ACTIVE.state
        if state is None:
            return None
        return tuple(item if item is None else transfer(state, item, self.device) for item in gradients)


@handles(Tensor.to)
def to(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensor, *rest = args
    if len(rest) == 1 and not kwargs and type(rest[0]) in (str, torch.device):  # most calls, often with nothing to do
        device, ours = state.simulation.find(rest[0])
        if not ours or device is None:
            return func(*args) if not ours or simulated_device_of(tensor) is None else transfer(state, tensor, None)
        return transfer(state, tensor, device)
    names = ["device", "dtype", "non_blocking", "copy"]
    if rest and isinstance(rest[0], Tensor):
        names = ["other", "non_blocking", "copy"]
    elif rest and isinstance(rest[0], torch.dtype):
        names = names[1:]
    options = {**dict(zip(names, rest, strict=False)), **kwargs}
    other = options.pop("other", None)
    if other is not None:
        device = simulated_device_of(other)
        if device is None:
            options["device"] = device_of(other)
        options["dtype"] = other.dtype
    elif options.get("device") is None:
        if state.target is not NO_TARGET:  # `transfer` calls this, and the mode below autograd knows where it goes
            return func(*args, **kwargs)
        return new_results(state, func, args, kwargs)
    else:
        device, ours = state.simulation.find(options["device"])
        if not ours:
            return func(*args, **kwargs)
    if device is None and simulated_device_of(tensor) is None:
        return func(tensor, **{**options, "device": options.get("device", CPU)})
    options.pop("device", None)
    return transfer(state, tensor, device, **options)


@handles(Tensor.cpu, only_on_device=True)
def cpu(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    return transfer(state, args[0], None, **kwargs)


@handles(Tensor.cuda)
def cuda(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensor, *rest = args
    options = {**dict(zip(["device", "non_blocking"], rest, strict=False)), **kwargs}
    wanted = options.pop("device", None)
    if wanted is None or isinstance(wanted, int):
        wanted = torch.device("cuda", wanted)
    device, ours = state.simulation.find(wanted)
    if not ours:
        return func(*args, **kwargs)
    if device is None or device.type != "cuda":
        raise RuntimeError(f"Invalid device, must be cuda device: {wanted}")
    return transfer(state, tensor, device, **options)


@handles(Tensor.type)
def type_(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensor, *rest = args
    wanted = rest[0] if rest else kwargs.get("dtype")
    source = simulated_device_of(tensor)
    if wanted is None:
        name: str = func(tensor)
        return name if source is None else name.replace("torch.", f"torch.{source.type}.", 1)
    if isinstance(wanted, torch.dtype):
        return func(*args, **kwargs)
    name = wanted if isinstance(wanted, str) else f"{wanted.__module__}.{wanted.__name__}"
    module, _, legacy = name.rpartition(".")
    device, ours = state.simulation.find(module.removeprefix("torch").removeprefix(".") or "cpu")
    if not ours or (device is None and source is None):
        return func(*args, **kwargs)
    return transfer(state, tensor, device, getattr(torch, legacy).dtype)


@handles(Tensor.type_as)
def type_as(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    return to(state, Tensor.to, (args[0], args[1] if len(args) > 1 else kwargs["other"]), {})


@handles(Tensor.copy_)
def copy_(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Copies between devices.

    A source with a gradient is transferred first, so that its gradient is moved back; one with a tangent, so that the
    tangent is moved too.
    """
    target, source, *rest = args if len(args) > 1 else (args[0], kwargs.pop("src", kwargs.pop("other", None)))
    if isinstance(source, Tensor) and (
        (source.requires_grad and torch.is_grad_enabled()) or forward_ad._current_level >= 0
    ):
        device = simulated_device_of(target)
        supported = device is None or source.dtype not in device.unsupported_dtypes
        if simulated_device_of(source) is not device and supported:
            source = transfer(state, source, device)
    return func(target, source, *rest, **kwargs)


@handles(Tensor.pin_memory)
def pin_memory(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensor = args[0]
    device = simulated_device_of(tensor)
    if device is not None:
        raise RuntimeError(
            f"cannot pin 'torch.{device.type}.{tensor.type().split('.')[-1]}' only dense CPU tensors can be pinned"
        )
    return tensor if is_pinned(state, func, args, kwargs) else mark_pinned(Tensor.clone(tensor))


@handles(Tensor.is_pinned)
def is_pinned(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    return bool(getattr(args[0].untyped_storage(), PINNED, False))


@handles(torch._C._nn._parse_to)
def parse_to(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Parse the arguments of `nn.Module.to`. An index is one of the simulated accelerator."""
    kind = state.simulation.kinds[0]
    if args and isinstance(args[0], int):
        args = (torch.device(kind, args[0]), *args[1:])
    if isinstance(kwargs.get("device"), int):
        kwargs["device"] = torch.device(kind, kwargs["device"])
    parsed = func(*args, **kwargs)
    if args and isinstance(args[0], Tensor):
        return (device_of(args[0]), *parsed[1:])
    return parsed
