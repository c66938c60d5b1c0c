"""What an evaluation gives: numbers by name, and what it says of every sample."""

from __future__ import annotations

import math
import numbers
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised, plain, show
from pytest_evalcheck.kinds.common.calling import TargetError

Record = tuple[int, Mapping[str, Any]]
"""The id of a sample, and what is said of it by name: its loss, its prediction, its label."""


@dataclass(frozen=True)
class Evaluated:
    """The numbers of one evaluation, and where a loop offers them, what it says of every sample that it counted."""

    numbers: Mapping[str, Any]
    """By name; a tensor or an array of no dimension is a number too."""
    records: Iterable[Record] | None = None
    """``(id, {name: value})`` of every sample that was counted, in the loop's order, as often as it was counted. The id
    is the index of the sample in the data. None where the loop does not tell."""


def read(given: Any, where: str = "evaluate()", *, some: bool = True) -> Evaluated:
    """What a loop gave, as plain numbers and records; there must be ``some`` numbers.

    Raises:
        TargetError: where it is no `Evaluated` nor a mapping, has no numbers, or one of them is no number.
    """
    made = given if isinstance(given, Evaluated) else Evaluated(given)
    if not isinstance(made.numbers, Mapping):
        none = "None (does it end without `return`?)" if made.numbers is None else _described(made.numbers)
        raise _fault(f"{where} gave no numbers by name", none)
    if some and not made.numbers:
        raise _fault(f"{where} gave no numbers", "an empty mapping")
    found = {name: _number(name, value, where) for name, value in made.numbers.items()}
    if made.records is None:
        return Evaluated(found)
    return Evaluated(found, [_record(one, where) for one in _list(made.records, where)])


def plainly(made: Any) -> Any:
    """An evaluation for comparing: its numbers, and its records by id, of which workers may change the order."""
    if not isinstance(made, Evaluated) or made.records is None:
        return dict(made.numbers) if isinstance(made, Evaluated) else made
    return {"numbers": dict(made.numbers), "records": sorted(made.records, key=lambda record: record[0])}


def repeated(ids: Sequence[int], count: int) -> list[str]:
    """One line for every kind of sample that is not there exactly once, by id."""
    times = Counter(ids)
    kinds = {
        "never counted": [str(one) for one in range(count) if not times[one]],
        "counted more than once": [f"{one} ({times[one]} times)" for one in times if times[one] > 1],
        "no id of the data": [str(one) for one in times if not 0 <= one < count],
    }
    return [f"{word}: {few(some)}" for word, some in kinds.items() if some]


def few(some: Sequence[Any]) -> str:
    """The first eight, and how many more there are."""
    return ", ".join(map(str, some[:8])) + (f" and {len(some) - 8} more" if len(some) > 8 else "")


class Undefined(Raised):
    """An evaluation that gave NaN alone, which says nothing of anything."""

    def __str__(self) -> str:
        return f"every number is NaN, of samples that are finite: {self.where}"


def undefined(found: Any) -> Undefined | None:
    """What to count as a refusal, where every number is NaN."""
    if isinstance(found, Raised) or not all(map(math.isnan, found.values())):
        return None
    return Undefined(ValueError("NaN"), show(found))


def nonfinite(found: Mapping[str, float]) -> list[str]:
    """The names of numbers that are NaN or infinite."""
    return [name for name, value in found.items() if not math.isfinite(value)]


def _number(name: Any, value: Any, where: str) -> float:
    if not isinstance(name, str):
        raise _fault(f"{where} names a number {name!r}", f"a name of type {type(name).__name__}", "a text")
    value = plain(value)
    if not isinstance(value, numbers.Real):
        wanted = "one number, or a tensor of no dimension"
        raise _fault(f"{where} gave no number as {name!r}", _described(value), wanted)
    return value if isinstance(value, int) else float(value)


def _record(one: Any, where: str) -> Record:
    wanted = "(id, {name: value}), where the id is the index of the sample"
    if not isinstance(one, (tuple, list)) or len(one) != 2 or not isinstance(one[1], Mapping):
        raise _fault(f"{where} gave a record that is none", _described(one), wanted, "records")
    place = plain(one[0])
    if isinstance(place, bool) or not isinstance(place, numbers.Integral):
        raise _fault(f"{where} gave a record without an id", _described(place), wanted, "records")
    return int(place), dict(one[1])


def _list(records: Any, where: str) -> list[Any]:
    if isinstance(records, (str, bytes, Mapping)) or not hasattr(records, "__iter__"):
        raise _fault(f"{where} gave no list of records", _described(records), "[(id, {name: value}), ...]", "records")
    return list(records)


REPORTS = r"(^|[\W_])(nans?|infs?|non_?finite|invalid|skipped)($|[\W_])"
"""Names of numbers that tell how many samples were left out."""


def reported(found: Mapping[str, float]) -> bool:
    """Whether a number of its own says that something was not finite."""
    return any(value > 0 for name, value in found.items() if re.search(REPORTS, name, re.I))


def _described(value: Any) -> str:
    shape = getattr(value, "shape", None)
    of = f" of shape {tuple(shape)}" if shape is not None and len(shape) else ""
    return f"{type(value).__name__}{of}: {show(value)[:120]}"


_WANTED = 'ec.Evaluated({"loss": 0.5, ...}), or the mapping alone'


def _fault(about: str, actual: str, expected: str = _WANTED, cause: str = "numbers") -> TargetError:
    return TargetError(about, actual=actual, expected=expected, cause=cause)
