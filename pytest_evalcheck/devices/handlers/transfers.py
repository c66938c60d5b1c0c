"""Handlers for what takes tensors from one device to another."""
# ruff: noqa: ARG001, D103  (all handlers have one signature, and are named after what they handle)

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import CPU, PINNED, SimulatedDevice, device_of, simulated_device_of
from pytest_evalcheck.devices.handlers.creation import pin
from pytest_evalcheck.devices.modes.function_mode import HANDLERS, SimulationFunctionMode, handles


@handles(Tensor.to)
def to(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensor, *rest = args
    if rest and isinstance(rest[0], Tensor):
        names = ["other", "non_blocking", "copy"]
    elif rest and isinstance(rest[0], torch.dtype):
        names = ["dtype", "non_blocking", "copy"]
    else:
        names = ["device", "dtype", "non_blocking", "copy"]
    given = {**dict(zip(names, rest, strict=False)), **kwargs}
    other = given.pop("other", None)
    if other is not None:
        place = simulated_device_of(other)
        if place is None:
            given["device"] = _real(other)
        given["dtype"] = other.dtype
    elif given.get("device") is None:
        return func(*args, **kwargs)
    else:
        place, ours = mode.simulation.find(given["device"])
        if not ours:
            return func(*args, **kwargs)
    if place is None and simulated_device_of(tensor) is None:
        return func(tensor, **{**given, "device": given.get("device", CPU)})
    given.pop("device", None)
    return mode.move(tensor, place, **given)


def _real(tensor: Tensor) -> torch.device:
    return Tensor.device.__get__(tensor)


@handles(Tensor.cpu)
def cpu(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    return func(*args, **kwargs) if simulated_device_of(args[0]) is None else mode.move(args[0], None, **kwargs)


@handles(Tensor.cuda)
def cuda(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensor, *rest = args
    given = {**dict(zip(["device", "non_blocking"], rest, strict=False)), **kwargs}
    device = given.pop("device", None)
    if isinstance(device, int):
        device = torch.device("cuda", device)
    place, ours = mode.simulation.find("cuda" if device is None else device)
    if not ours:
        return func(*args, **kwargs)
    if place is None or place.type != "cuda":
        raise RuntimeError(f"Invalid device, must be cuda device: {device}")
    return mode.move(tensor, place, **given)


@handles(Tensor.type)
def type_(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensor, *rest = args
    wanted = rest[0] if rest else kwargs.get("dtype")
    place = simulated_device_of(tensor)
    if wanted is None:
        name: str = func(tensor)
        return name if place is None else name.replace("torch.", f"torch.{place.type}.", 1)
    if isinstance(wanted, torch.dtype):
        return func(*args, **kwargs)
    name = wanted if isinstance(wanted, str) else f"{wanted.__module__}.{wanted.__name__}"
    module, _, legacy = name.rpartition(".")
    kind = module.removeprefix("torch").removeprefix(".") or "cpu"
    target: SimulatedDevice | None
    target, ours = mode.simulation.find(kind)
    if not ours or (target is None and place is None):
        return func(*args, **kwargs)
    return mode.move(tensor, target, getattr(torch, legacy).dtype)


@handles(Tensor.type_as)
def type_as(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    other = args[1] if len(args) > 1 else kwargs["other"]
    return HANDLERS[Tensor.to](mode, Tensor.to, (args[0], other), {})


@handles(Tensor.copy_)
def copy_(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Crosses devices. With a gradient to come, the source goes first, so that its gradient finds the way back."""
    target, source, *rest = args if len(args) > 1 else (args[0], kwargs.pop("src", kwargs.pop("other", None)))
    if isinstance(source, Tensor) and source.requires_grad and torch.is_grad_enabled():
        place = simulated_device_of(target)
        if simulated_device_of(source) is not place and not (
            place is not None and source.dtype in place.unsupported_dtypes
        ):
            source = mode.move(source, place)
    return func(target, source, *rest, **kwargs)


@handles(Tensor.pin_memory)
def pin_memory(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensor = args[0]
    place = simulated_device_of(tensor)
    if place is not None:
        raise RuntimeError(
            f"cannot pin 'torch.{place.type}.{tensor.type().split('.')[-1]}' only dense CPU tensors can be pinned"
        )
    return tensor if is_pinned(mode, func, args, kwargs) else pin(Tensor.clone(tensor))


@handles(Tensor.is_pinned)
def is_pinned(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    return bool(getattr(args[0].untyped_storage(), PINNED, False))


@handles(torch._C._nn._parse_to)
def parse_to(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What `nn.Module.to` asks: an index is one of the simulated accelerator."""
    if args and isinstance(args[0], int):
        args = (mode.simulation.device(args[0]), *args[1:])
    if isinstance(kwargs.get("device"), int):
        kwargs["device"] = mode.simulation.device(kwargs["device"])
    found = func(*args, **kwargs)
    if args and isinstance(args[0], Tensor):
        return (device_of(args[0]), *found[1:])
    return found
