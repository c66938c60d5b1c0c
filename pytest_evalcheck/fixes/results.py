"""Results that are their caller's own, and values that are computed once for each state."""

from __future__ import annotations

import copy
import functools
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

import torch
from torch import Tensor

from pytest_evalcheck.fixes.containers import items, replace_items

Compute = TypeVar("Compute", bound=Callable[..., Any])
Value = TypeVar("Value")

_PLAIN = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
_BY_IDENTITY = (type, ModuleType, FunctionType, BuiltinFunctionType)


def copy_result(value: Value) -> Value:
    """Return a copy that shares no memory with the value: tensors, arrays, and containers of them (EC105, EC219).

    Tensors keep their dtype, their device and their graph, containers their type. Other objects are the same ones.

    >>> state = torch.zeros(2)
    >>> copy_result({"total": state})["total"] is state
    False

    Symptom: code that writes into a result changes the next result, or the state.

    Before::

        class Total(Metric):
            def compute(self):
                return self.total

    After::

        from pytest_evalcheck.fixes import copy_result

        class Total(Metric):
            def compute(self):
                return copy_result(self.total)

    Costs: one copy of the result.

    Target: ec.metric(inputs=es.values())

    Shown by: EC219.
    """
    return _copied(value)  # type: ignore[no-any-return]


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    if _is_array(value) or isinstance(value, set | deque):
        return copy.copy(value)
    inside = items(value)
    return value if inside is None else replace_items(value, {key: _copied(inner) for key, inner in inside})


def cached_compute(compute: Compute) -> Compute:
    """Decorate ``compute``: its value is kept until an attribute of the object changes, and each call returns a copy.

    The state is all attributes of the object: numbers, texts, tensors, containers and objects of them. A tensor counts
    by its identity and by the number of writes into it, so no method that changes the state has to drop the value:
    ``update``, ``reset``, a merge and a checkpoint do so by what they change. Where no such number exists (arrays of
    NumPy, inference tensors), within torch.compile and while ranks of torch.distributed wait for each other, nothing
    is kept, and ``compute`` runs each time. Copies and pickles of the object begin without a value.

    Symptom: a merged or loaded metric gives the value that it had before the merge.

    Before::

        class Mean(Metric):
            def compute(self):
                if self.value is None:
                    self.value = self.total / self.count
                return self.value

    After::

        from pytest_evalcheck.fixes import cached_compute

        class Mean(Metric):
            @cached_compute
            def compute(self):
                return self.total / self.count

    Costs: a few microseconds for each attribute and call, and memory for one value.

    Limits: a write through ``tensor.data`` is not seen.

    Target: ec.metric(inputs=es.values())

    Shown by: EC219, EC234, EC235.
    """

    @functools.wraps(compute)
    def computed(self: Any, *args: Any, **named: Any) -> Any:
        if args or named or not hasattr(self, "__dict__") or torch.compiler.is_compiling() or _has_ranks():
            return copy_result(compute(self, *args, **named))
        kept = vars(self).setdefault("_kept_value", _Kept())
        if kept.state is None or not kept.state.equals(_State.of(self)):
            kept.value = compute(self)
            kept.state = _State.of(self)
        return copy_result(kept.value)

    return computed  # type: ignore[return-value]


class _Kept:
    """A value and the state that it belongs to; a copied or unpickled one is empty."""

    state: _State | None = None
    value: Any = None

    def __deepcopy__(self, memo: dict[int, Any]) -> _Kept:
        return _Kept()

    def __reduce__(self) -> tuple[type[_Kept], tuple[()]]:
        return _Kept, ()


class _Unknown(Exception):
    """An attribute whose changes cannot be seen."""


class _State:
    """Attributes of an object at one time, without references that keep tensors alive."""

    def __init__(self, values: list[Any], objects: list[weakref.ref[Any]]) -> None:
        self.values, self.objects = values, objects

    @classmethod
    def of(cls, value: Any) -> _State | None:
        """Return the state of an object; None where some of it cannot be compared."""
        state = cls([torch.is_grad_enabled()], [])
        try:
            state.values += state._read(vars(value), {id(value)})
        except _Unknown:
            return None
        return state

    def equals(self, other: _State | None) -> bool:
        # An object that is gone may have left its id to another one.
        return other is not None and self.values == other.values and all(each() is not None for each in self.objects)

    def _read(self, value: Any, above: set[int]) -> Iterator[Any]:
        if isinstance(value, _Kept):
            return
        if isinstance(value, _PLAIN):
            yield type(value), repr(value) if isinstance(value, float | complex) else value
        elif isinstance(value, Tensor) and not value.is_inference():
            self.objects.append(weakref.ref(value))
            yield id(value), value._version
        elif isinstance(value, MethodType):
            yield id(value.__self__), id(value.__func__)
        elif isinstance(value, _BY_IDENTITY):
            yield id(value)
        elif id(value) in above:
            yield "..."
        else:
            yield type(value)
            for inner in _parts(value):
                yield from self._read(inner, above | {id(value)})
            yield "end"


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from (key, inner)
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from value
    elif hasattr(value, "__dict__") and not isinstance(value, Tensor) and not _is_array(value):
        yield vars(value)
    else:
        raise _Unknown


def _is_array(value: object) -> bool:
    return not isinstance(value, Tensor) and hasattr(value, "__array__")


def _has_ranks() -> bool:
    # A rank that answers from memory would leave out the collective call in which the others wait.
    ranks = torch.distributed
    return bool(ranks.is_available() and ranks.is_initialized() and ranks.get_world_size() > 1)
