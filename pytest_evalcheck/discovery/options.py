"""Which options of a constructor are tried: every pair of values of two options occurs in one configuration."""

from __future__ import annotations

import inspect
import itertools
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pytest_evalcheck.discovery.words import ABOUT_INPUTS, INFRASTRUCTURE, OPTIONS, REQUIRED, SHOWING_NAN


class MissingArgument(Exception):
    """A parameter of a constructor that has no default and of which no value is known."""


def required(parameters: Sequence[inspect.Parameter], annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Values for the parameters that have no default.

    Raises:
        MissingArgument: with the name of one of which no value is known.
    """
    found = {}
    for each in parameters:
        if each.default is not each.empty or each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            continue
        if each.name in REQUIRED:
            found[each.name] = REQUIRED[each.name]
            continue
        values = _annotated(annotations.get(each.name))
        if not values:
            raise MissingArgument(each.name)
        found[each.name] = values[0]
    return found


def varied(parameters: Sequence[inspect.Parameter], annotations: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """By option: the values to be tried, the default first."""
    found = {}
    for each in parameters:
        if each.default is each.empty or each.name.startswith("_"):
            continue
        if each.name in INFRASTRUCTURE or ABOUT_INPUTS.search(each.name):
            continue
        known = OPTIONS.get(each.name, ())
        annotated = _annotated(annotations.get(each.name))
        values = annotated if isinstance(each.default, bool) or annotated else known
        if isinstance(each.default, bool) and not values:
            values = (False, True)
        if any(isinstance(value, str) for value in (each.default, *known)) and annotated:
            numbers = [kind for kind in typing.get_args(annotations[each.name]) if kind in (int, float)]
            values = (*(value for value in known if value in annotated or type(value) in numbers), *annotated)
        others = [value for value in values if not _same(value, each.default)]
        if others:
            found[each.name] = (each.default, *dict.fromkeys(others))
    return found


def about_nan(given: Mapping[str, Any]) -> str:
    """The option that says that a NaN is replaced or left out, such as ``nan_strategy="drop"``; empty for none."""
    return next((name for name, value in given.items() if "nan" in name.split("_") and _hides_nan(value)), "")


def _hides_nan(value: Any) -> bool:
    if isinstance(value, bool) or value is None:
        return bool(value)
    return value == value and value not in SHOWING_NAN


def covering(options: Mapping[str, Sequence[Any]], most: int) -> tuple[list[dict[str, Any]], int]:
    """At most ``most`` configurations in which every pair of values occurs, the defaults first; and how many were cut.

    A configuration names only the options whose value is not the default. Greedy: each one covers the most pairs that
    are left.
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


def _annotated(annotation: Any) -> tuple[Any, ...]:
    """The values that an annotation lists: those of a Literal, alone or in a union."""
    origin = typing.get_origin(annotation)
    if origin is Literal:
        return tuple(typing.get_args(annotation))
    if annotation is bool:
        return (False, True)
    if origin in (typing.Union, types.UnionType):
        parts = [_annotated(part) for part in typing.get_args(annotation) if part is not bool]
        return tuple(dict.fromkeys(value for part in parts for value in part))
    return ()


def _same(first: Any, second: Any) -> bool:
    return type(first) is type(second) and bool(first == second)
