"""Conditions for a call without the mode below autograd, which costs several times as much as a small operator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from pytest_evalcheck.devices.device_marks import MARK
from pytest_evalcheck.devices.state import ThreadState

_no_dispatch = torch._C._DisableTorchDispatch
_function_modes, _dispatch_modes = torch._C._len_torch_function_stack, torch._C._len_torch_dispatch_stack
# Before torch 2.8 nobody can ask for them: where gradients are on, there may be some.
_packers = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
PLAIN_VALUES = frozenset(
    (int, float, bool, complex, type(None), torch.dtype, torch.Size, torch.memory_format, torch.layout)
)
NO_TENSOR: Any = object()
"""The device of arguments among which there is no tensor."""
NOT_CERTAIN: Any = object()
"""The device of arguments that are not all on one device, or that are not all plain tensors and numbers."""


def is_alone(state: ThreadState) -> bool:
    """Return whether nobody but the simulation watches, and it has nothing to see but where the results are.

    A mode of the user, of either kind, is to see the operators, and its own are to be seen.
    """
    return not state.asynchrony.pending and _dispatch_modes() == 1 and not _function_modes()


def undispatched(func: Any, args: Any, kwargs: Any) -> Any:
    """Call a function without the mode below autograd."""
    guard = _no_dispatch()  # in effect for as long as the object exists, which a traceback may keep
    try:
        return func(*args, **kwargs)
    finally:
        del guard


def nothing_is_derived() -> bool:
    """Return whether no derivative is computed, and no tensor is packed, by code that makes tensors of its own."""
    return forward_ad._current_level < 0 and not _packs()


def _packs() -> bool:
    return torch.is_grad_enabled() and (_packers is None or _packers(False) is not None)


def is_plain(tensor: Any) -> bool:
    """Return whether a tensor is of no other class, and has a storage of its own."""
    if type(tensor) is not Tensor and type(tensor) is not Parameter:
        return False
    try:
        tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):  # sparse, functorch
        return False
    return True


def common_device_of(values: Iterable[Any], device: Any = NO_TENSOR) -> Any:
    """The one device, or None for the CPU, of all tensors in nested lists: else `NO_TENSOR` or `NOT_CERTAIN`.

    Raises RuntimeError or NotImplementedError for a tensor without a storage.
    """
    for value in values:
        kind = type(value)
        if kind is Tensor or kind is Parameter:
            found = getattr(value.untyped_storage(), MARK, None)
            if found is not device:
                if device is not NO_TENSOR:
                    return NOT_CERTAIN
                device = found
        elif kind is list or kind is tuple:
            device = common_device_of(value, device)
            if device is NOT_CERTAIN:
                return device
        elif kind not in PLAIN_VALUES:
            return NOT_CERTAIN
    return device
