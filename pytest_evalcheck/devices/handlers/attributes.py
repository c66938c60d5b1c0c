"""Handlers for attributes of a tensor, and for what only a CPU tensor can do."""
# ruff: noqa: ARG001, D103  (all handlers have one signature, and are named after what they handle)

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import device_of, simulated_device_of
from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.handlers.transfers import transfer
from pytest_evalcheck.devices.handlers.without_dispatch import is_alone, is_plain, undispatched
from pytest_evalcheck.devices.state import ThreadState, handles


@handles(Tensor.device.__get__)
def device(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> torch.device:
    return device_of(args[0])


@handles(Tensor.get_device, torch.get_device)
def get_device(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> int:
    tensor = args[0] if args else kwargs["input"]
    found = simulated_device_of(tensor)
    return int(func(tensor) if found is None else found.torch_device.index)


def _handle_is(kind: str) -> None:
    @handles(getattr(Tensor, f"is_{kind}").__get__)
    def is_kind(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
        return bool(device_of(args[0]).type == kind)


for _kind in ("cpu", "cuda", "mps", "meta", "xpu", "hpu", "mtia", "xla"):
    if hasattr(Tensor, f"is_{_kind}"):
        _handle_is(_kind)


@handles(Tensor.numpy, Tensor.__array__, only_on_device=True, reads=True)
def numpy(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    if func == Tensor.numpy and kwargs.get("force"):
        return func(transfer(state, args[0].detach(), None).resolve_conj().resolve_neg())
    raise TypeError(
        f"can't convert {device_of(args[0])} device type tensor to numpy. "
        "Use Tensor.cpu() to copy the tensor to host memory first."
    )


@handles(Tensor.tolist)
def tolist(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    state.record_read(args[0])
    return func(*args, **kwargs)


@handles(Tensor.__repr__, only_on_device=True, reads=True)
def represent(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> str:
    """PyTorch's text, with the device where PyTorch has it: before the size, the dtype and the gradient."""
    text = str(func(*args, **kwargs))
    state.record_read(args[0])
    later = re.search(r",\s+(size|dtype|requires_grad|grad_fn|layout|nnz|tangent)=", text)
    cut = later.start() if later else text.rindex(")")
    return f"{text[:cut]}, device='{device_of(args[0])}'{text[cut:]}"


@handles(Tensor.apply_, Tensor.map_, Tensor.map2_, only_on_device=True, reads=True)
def refuse_on_device(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    raise TypeError(f"{func.__name__} is only implemented on CPU tensors")


@handles(Tensor.__deepcopy__)
def deep_copy(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensor = args[0]
    state.record_read_of_host(tensor)
    has_more = bool(vars(tensor)) or not tensor.is_leaf or tensor.grad is not None  # which may do anything when copied
    if has_more or not is_alone(state) or not is_plain(tensor):
        return func(*args, **kwargs)
    return undispatched(func, args, kwargs)  # the copy of a storage is on its device


@handles(Tensor.share_memory_, only_on_device=True, reads=True)
def share_memory(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    return args[0]


@handles(Tensor.__dlpack__, only_on_device=True, reads=True)
@handles(Tensor.__dlpack_device__, Tensor.__cuda_array_interface__.__get__, only_on_device=True)
def foreign(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    raise CannotSimulate(
        f"handing memory of {device_of(args[0])} to another library", "there is none; hand over .cpu() of the tensor."
    )
