"""When a call may go past the dispatcher, and how it does.

A mode below autograd costs several times what a small operator does. Where all tensors of a call are plain and in one
place, and the function is known to follow the general rule, the dispatcher would find out nothing new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from pytest_evalcheck.devices.dispatch import Dispatch
from pytest_evalcheck.devices.tags import MARK, Place

_functions, _dispatchers = torch._C._len_torch_function_stack, torch._C._len_torch_dispatch_stack
_dispatcher = torch._C._get_dispatch_stack_at
_Off = torch._C._DisableTorchDispatch  # from when it is made until it is gone
_HOLDS_NO_TENSOR = frozenset(
    {int, float, bool, complex, str, type(None), type(...)}
    | {torch.dtype, torch.layout, torch.memory_format, torch.device}
)
_PLAIN = frozenset({Tensor, torch.nn.Parameter})
NOWHERE: Any = object()
"""The place of a call without tensors."""


class Unlike(Exception):
    """Not all that a call was given is plain and in one place."""


def alone() -> bool:
    """Whether nobody but the simulation watches: a mode of the user's sees every call and every operator.

    In a backward pass the dispatcher must know where the last operator ran.
    """
    return not (
        _functions()
        or _dispatchers() != 1
        or forward_ad._current_level >= 0
        or torch._C._current_graph_task_id() != -1
        or type(_dispatcher(0)) is not Dispatch
    )


def straight(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call it with the dispatcher off. What comes out is not marked."""
    off = _Off()
    try:
        return function(*args, **kwargs)
    finally:
        del off


def plain(tensor: Tensor) -> bool:
    """Whether a tensor is an ordinary one, with a storage of its own and without a gradient to come."""
    try:
        _place(tensor)
    except (Unlike, RuntimeError):
        return False
    return True


def _place(tensor: Tensor) -> Place | None:
    if type(tensor) not in _PLAIN:
        raise Unlike
    if tensor.requires_grad and (torch.is_grad_enabled() or torch._C._is_any_autocast_enabled()):
        raise Unlike  # autograd and autocast keep what is made on the way
    place: Place | None = getattr(tensor.untyped_storage(), MARK, None)
    return place


def together(values: Iterable[Any], place: Any = NOWHERE) -> Any:
    """Where all the tensors are: a place of this simulation, None for the CPU, or `NOWHERE` if there are none.

    Raises:
        Unlike: where they are not together, where a gradient is to come, and where it is not certain.
        RuntimeError: where one has no storage.
    """
    for value in values:
        kind = type(value)
        if kind in _PLAIN:
            here = _place(value)
            if here is not place:
                if place is not NOWHERE or not (here is None or here.open):
                    raise Unlike
                place = here
        elif kind is tuple or kind is list or kind is torch.Size:
            place = together(value, place)
        elif kind is slice:
            place = together((value.start, value.stop, value.step), place)
        elif kind not in _HOLDS_NO_TENSOR:
            raise Unlike
    return place


def without_tensors(args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether a call was given nothing but numbers, sizes and options."""
    try:
        return together(args) is NOWHERE and together(kwargs.values()) is NOWHERE
    except (Unlike, RuntimeError):
        return False
