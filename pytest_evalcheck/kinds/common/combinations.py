"""Combinations of the values of options: every pair of values of two options occurs in one of them."""

from __future__ import annotations

import inspect
import itertools
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal


def covering(options: Mapping[str, Sequence[Any]], most: int) -> tuple[list[dict[str, Any]], int]:
    """At most ``most`` configurations in which every pair of values occurs, the defaults first; and how many were cut.

    A configuration names only the options whose value is not the first one. Greedy: each one covers the most pairs that
    are left.

    >>> covering({"average": ("micro", "macro"), "top_k": (1, 2)}, 9)[0]
    [{}, {'average': 'macro', 'top_k': 2}, {'top_k': 2}, {'average': 'macro'}]
    """
    names = list(options)
    chosen: list[dict[str, Any]] = [{}]
    left = {
        frozenset(((a, i), (b, j)))
        for a, b in itertools.combinations(names, 2)
        for i in range(len(options[a]))
        for j in range(len(options[b]))
    } or {frozenset(((a, i),)) for a in names for i in range(len(options[a]))}
    rows = [dict.fromkeys(names, 0)]
    left -= _pairs(rows[0])
    while left:
        row = _row_for(min(left, key=sorted), options, left)
        rows.append(row)
        left -= _pairs(row)
    for row in rows[1:]:
        chosen.append({name: options[name][row[name]] for name in names if row[name]})
    distinct = [each for i, each in enumerate(chosen) if each not in chosen[:i]]
    return distinct[:most], max(0, len(distinct) - most)


def _row_for(pair: frozenset[tuple[str, int]], options: Mapping[str, Sequence[Any]], left: Any) -> dict[str, int]:
    row = dict(pair)
    for name in options:
        if name not in row:
            row[name] = max(range(len(options[name])), key=lambda i: (len(_pairs({**row, name: i}) & left), -i))
    return row


def _pairs(row: Mapping[str, int]) -> set[frozenset[tuple[str, int]]]:
    items = sorted(row.items())
    return {frozenset(two) for two in itertools.combinations(items, 2)} | {frozenset((one,)) for one in items}


def annotations_of(thing: Any) -> dict[str, Any]:
    """The annotations of the arguments of a class or a function, by name."""
    functions = [thing]
    if inspect.isclass(thing):
        functions = [vars(thing).get("__new__", thing.__init__), thing.__init__]
    found: dict[str, Any] = {}
    for function in functions:
        try:
            found = {**typing.get_type_hints(getattr(function, "__func__", function)), **found}
        except Exception:  # a name of an annotation is not there at run time
            continue
    return found


def listed_values(annotation: Any) -> tuple[Any, ...]:
    """The values that an annotation lists: those of a Literal, alone or in a union, and both of a boolean.

    >>> listed_values(Literal["micro", "macro"] | None)
    ('micro', 'macro')
    """
    origin = typing.get_origin(annotation)
    if origin is Literal:
        return tuple(typing.get_args(annotation))
    if annotation is bool:
        return (False, True)
    if origin in (typing.Union, types.UnionType):
        parts = [listed_values(part) for part in typing.get_args(annotation) if part is not bool]
        return tuple(dict.fromkeys(value for part in parts for value in part))
    return ()
