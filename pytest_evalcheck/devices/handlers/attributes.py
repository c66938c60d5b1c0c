"""Handlers for questions about a tensor, and for what only a CPU tensor can do."""
# ruff: noqa: ARG001, D103  (all handlers have one signature, and are named after what they handle)

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import device_of, simulated_device_of
from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.modes.function_mode import SimulationFunctionMode, handles


@handles(Tensor.device.__get__)
def device(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> torch.device:
    return device_of(args[0])


@handles(Tensor.get_device, torch.get_device)
def get_device(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> int:
    tensor = args[0] if args else kwargs["input"]
    place = simulated_device_of(tensor)
    return int(func(tensor)) if place is None else place.device.index


def _is(kind: str) -> Any:
    getter = getattr(Tensor, f"is_{kind}").__get__

    @handles(getter)
    def answer(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
        return bool(device_of(args[0]).type == kind)

    return answer


for _kind in ("cpu", "cuda", "mps", "meta", "xpu", "hpu", "mtia", "xla"):
    if hasattr(Tensor, f"is_{_kind}"):
        _is(_kind)


@handles(Tensor.numpy)
def numpy(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    place = simulated_device_of(args[0])
    if place is None:
        return func(*args, **kwargs)
    if kwargs.get("force"):
        return func(mode.move(args[0].detach(), None).resolve_conj().resolve_neg())
    raise TypeError(_to_numpy(place.device))


@handles(Tensor.__array__)
def array(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    place = simulated_device_of(args[0])
    if place is not None:
        raise TypeError(_to_numpy(place.device))
    return func(*args, **kwargs)


def _to_numpy(device: torch.device) -> str:
    return (
        f"can't convert {device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
    )


@handles(Tensor.tolist)
def tolist(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    place = simulated_device_of(args[0])
    if place is not None:
        mode.ledger.waited(place.device)
    return func(*args, **kwargs)


@handles(Tensor.__repr__)
def represent(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> str:
    """PyTorch's text, with the device where PyTorch has it: before the size, the dtype and the gradient."""
    text = str(func(*args, **kwargs))
    place = simulated_device_of(args[0])
    if place is None:
        return text
    mode.ledger.waited(place.device)
    found = re.search(r",\s+(size|dtype|requires_grad|grad_fn|layout|nnz|tangent)=", text)
    cut = found.start() if found else text.rindex(")")
    return f"{text[:cut]}, device='{place.device}'{text[cut:]}"


@handles(Tensor.apply_, Tensor.map_, Tensor.map2_)
def on_cpu_only(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    if simulated_device_of(args[0]) is not None:
        raise TypeError(f"{func.__name__} is only implemented on CPU tensors")
    return func(*args, **kwargs)


@handles(Tensor.share_memory_)
def share_memory(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    return args[0] if simulated_device_of(args[0]) is not None else func(*args, **kwargs)


@handles(Tensor.__dlpack__, Tensor.__dlpack_device__, Tensor.__cuda_array_interface__.__get__)
def foreign(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    if simulated_device_of(args[0]) is None:
        return func(*args, **kwargs)
    raise CannotSimulate(
        f"handing memory of {device_of(args[0])} to another library", "there is none; hand over .cpu() of the tensor."
    )


@handles(Tensor.grad.__get__)
def grad(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """A gradient is where its tensor is: autograd brings that of a CPU tensor without dimensions home."""
    found = func(*args)
    if found is not None and found.dim() == 0 and simulated_device_of(found) is not simulated_device_of(args[0]):
        with torch.no_grad():
            found = mode.move(found, simulated_device_of(args[0]))
        Tensor.grad.__set__(args[0], found)
    return found


@handles(Tensor.grad.__set__)
def set_grad(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensor, value = args
    if isinstance(value, Tensor) and simulated_device_of(value) is not simulated_device_of(tensor):
        raise RuntimeError(
            f"attempting to assign a gradient with device type '{device_of(value).type}' to a tensor with device type "
            f"'{device_of(tensor).type}'. Please ensure that the gradient and the tensor are on the same device"
        )
    return func(*args)


@handles(Tensor.backward)
def backward(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Inside of it, hooks and recomputed forwards run with the simulation on."""
    tensor, *rest = args
    names = ("gradient", "retain_graph", "create_graph", "inputs")
    given = {**dict(zip(names, rest, strict=False)), **kwargs}
    given["grad_tensors"] = given.pop("gradient", None)
    with mode:
        torch.autograd.backward(tensor, **given)
