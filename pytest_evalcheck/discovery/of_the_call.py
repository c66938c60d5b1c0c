"""Times, identifiers and places in results: they belong to a call, and not to the samples that it was given."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID

from pytest_evalcheck.expectations.comparison import EXACT, attributes, difference, plain
from pytest_evalcheck.kinds.common.process_state import SECONDS_LATER

_NEAR = 3600
"""Seconds around now in which a number that differs from call to call is a time."""


def named_leaves(value: Any, name: str = "", depth: int = 4) -> Iterator[tuple[str, Any]]:
    """Yield what is in a result with the nearest name: in its containers, and in the fields of its objects."""
    value = plain(value)
    held = value if isinstance(value, Mapping) else attributes(value)
    inside = [*held.items()] if held else [(name, each) for each in value] if isinstance(value, (list, tuple)) else None
    if inside is None or not depth:
        yield name, value
    else:
        for key, each in inside:
            yield from named_leaves(each, str(key), depth - 1)


def names_of_the_call(first: Sequence[Any], second: Sequence[Any]) -> list[str]:
    """Return the names in results of the same samples, the second by another clock, that have times or identifiers.

    Wherever such a value differs, a time that was taken is longer by the other clock, and any other time is later.
    """
    differ: dict[str, list[bool]] = {}
    for pair in zip(first, second, strict=True):
        for (name, one), (_, two) in zip(*map(named_leaves, pair), strict=False):
            if difference(one, two, EXACT) is not None:
                differ.setdefault(name, []).append(_is_of_the_call(one, two))
    return [name for name, found in differ.items() if name and all(found)]


def names_of_places(first: Any, turned: Any, count: int) -> list[str]:
    """Return the names in a result of so many samples that have the places of these: the same if they are turned."""
    before, after = _by_name(first), _by_name(turned)
    return [name for name, leaves in before.items() if name and len({*leaves}) == count and leaves == after.get(name)]


def _by_name(result: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, leaf in named_leaves(result):
        found.setdefault(name, []).append(repr(leaf))
    return found


def _is_of_the_call(one: Any, two: Any) -> bool:
    if is_number(one) and is_number(two):
        now = all(abs(each - time.time()) < _NEAR for each in (one, two))
        return now or bool(two > 20 * one >= 0 or two - one > SECONDS_LATER * 0.9)
    texts = isinstance(one, str) and isinstance(two, str)
    return isinstance(one, datetime) or (texts and _made_anew(one) and _made_anew(two))


def _made_anew(text: str) -> bool:
    """Return whether a text is a date with its time, or an identifier."""
    for read in (datetime.fromisoformat, UUID):
        with suppress(ValueError):
            return read(text) is not None
    return False


def is_number(value: Any) -> bool:
    """Return whether a value is one finite number."""
    if isinstance(value, (bool, str)) or getattr(value, "shape", ()) not in ((), (1,)):
        return False
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError):
        return False
