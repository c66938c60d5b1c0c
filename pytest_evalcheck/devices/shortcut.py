"""A way past the dispatcher for common functions: half the cost of a call whose tensors are all in one place.

A function stands here where all that it does with such tensors is to compute new ones, views or numbers, or to write
into the first of them: nothing crosses, no operator in it has a rule of its own, and it waits always or never. So the
place of the arguments is all that the dispatcher would find out. What is not certain goes the long way, and errors do;
but never what has been written already, which would be written twice.
"""
# ruff: noqa: ARG001  (all handlers have one signature)

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.creation import create
from pytest_evalcheck.devices.direct import NOWHERE, Unlike, alone, plain, straight, together
from pytest_evalcheck.devices.function import HANDLERS, Function, handles
from pytest_evalcheck.devices.tags import MARK, Place

_OPERATORS = (
    "add sub mul truediv floordiv mod radd rsub rmul rtruediv and or xor rand ror rxor "
    "eq ne lt le gt ge neg invert abs pos pow rpow matmul"
)
_OPERATORS_IN_PLACE = "iadd isub imul itruediv iand ior"
_METHODS = (
    "abs add amax amin any all argmax argmin argsort bitwise_and bitwise_not bitwise_or bmm ceil chunk clamp "
    "clone contiguous cos cummax cumsum detach diag diff div eq erf exp expand expand_as flatten flip floor "
    "fmod ge gt isfinite isinf isnan le lerp log log1p log_softmax logical_and logical_not logical_or logical_xor "
    "logsumexp lt matmul max maximum mean min minimum mm movedim mul nan_to_num ne neg norm permute pow prod "
    "reciprocal relu remainder reshape roll round rsqrt select sigmoid sign sin softmax sort split sqrt square squeeze "
    "std sub sum swapaxes t tanh topk transpose tril triu unbind unflatten unsqueeze var view view_as"
)
_METHODS_IN_PLACE = "add_ div_ fill_ mul_ sub_ zero_"
_CASTS = "bfloat16 bool double float half int long"
_OTHERS = "broadcast_tensors cat conv2d einsum embedding gather layer_norm stack where"
_NN = "gelu linear scaled_dot_product_attention silu"
_FUNCTIONAL = "embedding layer_norm log_softmax max_pool2d relu silu softmax"
_LIKE = "full_like ones_like zeros_like new_full new_ones new_zeros"
_WAITING = "item __bool__ __int__ __float__ __index__ allclose bincount equal masked_select nonzero unique"


def _named(names: str, *owners: Any) -> Iterator[Any]:
    for name in names.split():
        yield from (getattr(owner, name) for owner in owners if hasattr(owner, name))


def _simple() -> Iterator[Any]:
    yield from (getattr(Tensor, f"__{name}__") for name in _OPERATORS.split())
    yield from _named(_METHODS, Tensor, torch)
    yield from _named(_CASTS, Tensor)
    yield from _named(_OTHERS, torch)
    yield from _named(_NN, torch._C._nn)
    yield from _named(_FUNCTIONAL, torch.nn.functional)
    yield Tensor.T.__get__


def _writing() -> Iterator[Any]:
    yield from (getattr(Tensor, f"__{name}__") for name in _OPERATORS_IN_PLACE.split())
    yield from _named(_METHODS_IN_PLACE, Tensor)


SIMPLE = frozenset(_simple()) - HANDLERS.keys()
WRITING = frozenset(_writing()) - HANDLERS.keys()
LIKE = frozenset(_named(_LIKE, torch, Tensor)) - HANDLERS.keys()
WAITING = frozenset(_named(_WAITING, torch, Tensor)) - HANDLERS.keys()


@handles(*SIMPLE)
def simple(mode: Function, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Call it with the dispatcher off, and mark what comes out."""
    return _called(func, args, kwargs)[0]


@handles(*WRITING)
def writing(mode: Function, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The same, but what comes out is the first argument, which is marked."""
    return _called(func, args, kwargs, _leave)[0]


@handles(*LIKE)
def like(mode: Function, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The same, unless the result is to be elsewhere."""
    if kwargs.get("device") is not None or kwargs.get("pin_memory"):
        return create(mode, func, args, kwargs)
    return _called(func, args, kwargs)[0]


@handles(*WAITING)
def waiting(mode: Function, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The same, and the host waits for the device once."""
    out, place = _called(func, args, kwargs)
    if place is not None:
        mode.ledger.waited(place.device)
    return out


@handles(Tensor.__getitem__)
def getitem(mode: Function, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """A part that is given by numbers and slices is a view; masks and lists of numbers are the dispatcher's."""
    index = args[1] if type(args[1]) is tuple else (args[1],)
    if all(type(each) in _PARTS for each in index):
        return _called(func, args, kwargs)[0]
    return func(*args, **kwargs)


@handles(Tensor.__setitem__)
def setitem(mode: Function, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """No wait for a mask here, as nothing that comes out has a size."""
    index = args[1] if type(args[1]) is tuple else (args[1],)
    if all(type(each) in _PARTS or type(each) is Tensor for each in index):
        return _called(func, args, kwargs, _leave)[0]
    return func(*args, **kwargs)


_PARTS = frozenset({int, slice, type(None), type(...)})


@handles(Tensor.__deepcopy__)
def deepcopy(mode: Function, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The copy of its storage is marked already. Attributes are the user's, and copied in sight of all."""
    tensor = args[0]
    if alone() and plain(tensor) and not vars(tensor):
        return straight(func, args, kwargs)
    return func(*args, **kwargs)


def _mark(out: Any, place: Place) -> None:
    """Put what came out on the place.

    Raises:
        Unlike: where it has a dtype that the place lacks.
    """
    if isinstance(out, Tensor):
        if out.dtype in place.lacks:
            raise Unlike
        setattr(out.untyped_storage(), MARK, place)
    elif isinstance(out, (tuple, list)):
        for each in out:
            _mark(each, place)


def _leave(out: Any, place: Place) -> None:
    """Nothing new came out."""


def _called(func: Any, args: Any, kwargs: Any, mark: Callable[[Any, Place], None] = _mark) -> tuple[Any, Place | None]:
    """The result, and where its arguments are if nobody else has seen to it."""
    if not alone() or kwargs.get("out") is not None:
        return func(*args, **kwargs), None
    try:
        place = together(args)
        if kwargs:
            place = together(kwargs.values(), place)
        out = straight(func, args, kwargs)
        if place is NOWHERE or place is None:
            return out, None
        mark(out, place)
    except (Unlike, RuntimeError):
        return func(*args, **kwargs), None
    return out, place
