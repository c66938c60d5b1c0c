"""What is known again of the results of a library: objects, their parts, and numbers, each by its place."""

from __future__ import annotations

import types
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

PLAIN = (bool, int, str, type(None), type, types.ModuleType)

_DEEPEST = 6
_MOST = 10_000
"""So many numbers of one result are looked at."""


def own_numbers(result: Any, known: Container[int]) -> Any:
    """A result in whose dicts and lists each number is an object that was nowhere else; ``known`` holds ids of others.

    A library that returns a constant, such as 0.0, returns one object in all its results, and it may return a number
    that it was given.
    """
    seen: set[int] = set()

    def own(value: float) -> float:
        value = value * 1.0 if id(value) in known or id(value) in seen else value  # also of -0.0 and NaN
        seen.add(id(value))
        return value

    if type(result) is float:
        return own(result)
    for holder, place, value in _floats(result):
        if len(seen) == _MOST:
            break
        holder[place] = own(value)
    return result


def floats_in(value: Any) -> list[float]:
    """The numbers in the dicts and lists of a value."""
    return [found for _, _, found in _floats(value)][:_MOST]


def _floats(value: Any) -> Iterator[tuple[Any, Any, float]]:
    """Each number with what holds it and its place there."""
    seen: set[int] = set()
    pending = [(value, 0)]
    while pending:
        holder, depth = pending.pop()
        if depth > _DEEPEST or id(holder) in seen:
            continue
        if isinstance(holder, dict) and type(holder).__setitem__ is dict.__setitem__:
            parts: Any = list(holder.items())
        elif type(holder) is list:
            parts = list(enumerate(holder))
        else:
            continue
        seen.add(id(holder))
        for place, part in parts:
            if type(part) is float:
                yield holder, place, part
            else:
                pending.append((part, depth + 1))


def is_trackable(value: Any) -> bool:
    """Whether an object has an identity of its own, by which it is known again."""
    if isinstance(value, (*PLAIN, types.FunctionType, types.MethodType, types.BuiltinFunctionType)):
        return False
    return type(value).__module__ != "torch" or type(value).__name__ not in ("Size", "dtype", "device", "layout")


def parts_of(value: Any) -> list[tuple[str, Any]]:
    """What a mapping, a list or a tuple holds that is known again, each with its index as source code."""
    pairs: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        pairs = ((key, part) for key, part in value.items() if isinstance(key, (str, int)))
    elif isinstance(value, (list, tuple)):
        pairs = enumerate(value)
    return [(f"[{key!r}]", part) for key, part in pairs if is_trackable(part)]
