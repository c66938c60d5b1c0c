"""Options of a constructor that are tried, and their values."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_evalcheck.discovery.naming_tables import ABOUT_INPUTS, INFRASTRUCTURE, OPTIONS, REQUIRED, SHOWING_NAN
from pytest_evalcheck.kinds.common.combinations import listed_values


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
        values = listed_values(annotations.get(each.name))
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
        annotated = listed_values(annotations.get(each.name))
        values = annotated if isinstance(each.default, bool) or annotated else known
        if isinstance(each.default, bool) and not values:
            values = (False, True)
        if any(isinstance(value, str) for value in (each.default, *known)) and annotated:
            numbers = [kind for kind in typing.get_args(annotations[each.name]) if kind in (int, float)]
            values = (*(value for value in known if value in annotated or type(value) in numbers), *annotated)
        others = [value for value in values if not _is_equal(value, each.default)]
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


def _is_equal(first: Any, second: Any) -> bool:
    return type(first) is type(second) and bool(first == second)
