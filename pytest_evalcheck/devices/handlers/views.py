"""Functions that only make views of one tensor: the mode below autograd has nothing to check or to mark for them.

A view shares the storage of its tensor, and so the mark on it. Without that mode a view costs a third.
"""

from __future__ import annotations

from types import EllipsisType
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import MARK
from pytest_evalcheck.devices.handlers.without_dispatch import is_alone, undispatched
from pytest_evalcheck.devices.state import ThreadState, handles

# native_functions.yaml: one Tensor argument, and every result is a view of it, whatever its strides are.
_NAMES = (
    "adjoint as_strided chunk detach diagonal expand movedim moveaxis permute select split split_with_sizes squeeze "
    "swapaxes swapdims t transpose unbind unfold unsqueeze view"
)
_ATTRIBUTES = "T mT H mH"
_OF_CONTIGUOUS = "flatten ravel reshape"  # they copy where the strides do not fit
_WRITTEN_OUT = frozenset({int, type(None), EllipsisType})


def _functions(names: str) -> set[Any]:
    found = [getattr(owner, name, None) for name in names.split() for owner in (torch, Tensor)]
    return {function for function in found if function is not None}


@handles(*_functions(_NAMES), *(getattr(Tensor, name).__get__ for name in _ATTRIBUTES.split()))
def view(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run without the mode below autograd, unless a size is a tensor, whose value is read."""
    for arg in (*args[1:], *kwargs.values()) if kwargs else args[1:]:
        kind = type(arg)
        if kind is not int and kind is not torch.Size:
            if kind is not tuple and kind is not list:
                return func(*args, **kwargs)
            for item in arg:
                if type(item) is not int:
                    return func(*args, **kwargs)
    if not args or not is_alone(state) or not _is_ours(args[0]):
        return func(*args, **kwargs)
    return undispatched(func, args, kwargs)


@handles(*_functions(_OF_CONTIGUOUS))
def reshape(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The same for a contiguous tensor."""
    if args and type(args[0]) is Tensor and args[0].is_contiguous():
        return view(state, func, args, kwargs)
    return func(*args, **kwargs)


@handles(Tensor.__getitem__)
def getitem(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The same for indices that are written out: one that is a list or a tensor copies what it selects."""
    index = args[1]
    for item in index if type(index) is tuple else (index,):
        if type(item) not in _WRITTEN_OUT and not _is_plain_slice(item):
            return func(*args)
    if not is_alone(state) or not _is_ours(args[0]):
        return func(*args)
    return undispatched(func, args, kwargs)


def _is_plain_slice(index: Any) -> bool:
    if type(index) is not slice:
        return False
    return type(index.start) in _WRITTEN_OUT and type(index.stop) in _WRITTEN_OUT and type(index.step) in _WRITTEN_OUT


def _is_ours(tensor: Any) -> bool:
    """Return whether a plain tensor is on the CPU or on a device of this simulation."""
    if type(tensor) is not Tensor and type(tensor) is not torch.nn.Parameter:
        return False
    try:
        device = getattr(tensor.untyped_storage(), MARK, None)
    except (RuntimeError, NotImplementedError):  # sparse
        return False
    return device is None or device.available
