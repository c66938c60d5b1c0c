"""Optimised configurations of a loop: evaluated beside the plain one, on the same samples."""

from __future__ import annotations

import inspect
import math
import numbers
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from pytest_evalcheck.expectations.comparison import Raised, plain, show
from pytest_evalcheck.expectations.failures import NotApplicable, expect
from pytest_evalcheck.kinds.common.calling import TargetError
from pytest_evalcheck.kinds.common.subject import Rows
from pytest_evalcheck.kinds.loop.cost import note
from pytest_evalcheck.kinds.loop.results import Evaluated, few
from pytest_evalcheck.kinds.loop.subject import BATCH, LoopSubject, told
from pytest_evalcheck.variants import Variant, read
from pytest_evalcheck.variants.paired_difference import CONFIDENCE, Loss, loss


def declared(loop: LoopSubject, *, budgeted: bool) -> dict[str, Variant]:
    """The variants that are held by their budget, or those that are held by a tolerance.

    Raises:
        NotApplicable: where there is none.
        TargetError: where one is not written as a variant, or ``evaluate`` does not take what it names.
    """
    record = loop.record
    problems: list[str] = []
    found = {**read(loop.variants, problems), **read(record.variants, problems)}
    problems += [f"variants[{name!r}]: {text}" for name, one in found.items() if (text := _unfit(record.evaluate, one))]
    if problems:
        more = "\n".join(problems[1:])
        raise TargetError("a variant cannot be evaluated", actual=problems[0], detail=more, cause="variants")
    if not found:
        raise NotApplicable("the target names no variants")
    if budgeted:
        held = {name: one for name, one in found.items() if one.budget is not None}
    else:
        held = {name: one for name, one in found.items() if one.budget is None or one.within is not None}
    if not held:
        raise NotApplicable("no variant declares a budget" if budgeted else "all variants declare a budget alone")
    return held


def lengths(loop: LoopSubject, rows: Rows, batch_size: int) -> list[tuple[Rows, int]]:
    """Samples and a batch size; and more than a hundred: each of them again and again, in their order and back.

    A sum goes wrong in hundreds of steps, not in ten, and a batch of long samples stands before one of short samples.
    """
    if loop.inputs.distinct is not None:
        return [(rows, batch_size)]
    there_and_back = [*rows, *reversed(rows)]
    each = math.ceil(_LONG / len(there_and_back))
    return [(rows, batch_size), ([row for row in there_and_back for _ in range(each)], max(batch_size, _LONG_BATCH))]


_LONG = 130
_LONG_BATCH = 32


def evaluated(loop: LoopSubject, rows: Rows, variant: Variant | None = None, batch_size: int | None = None) -> Any:
    """What a new loop gives in a configuration, as `Evaluated`, or the error.

    ``batch_size`` is for what does not choose one itself; None leaves it to the loop.
    """
    live, config = loop.fresh(), {} if variant is None else variant.config
    size: dict[str, Any] = {} if batch_size is None or BATCH in config else {BATCH: batch_size}
    return live.call("evaluate()", partial(live.record.evaluate, **config), loop.data(rows), **size)


def hold(name: str, variant: Variant, seen: Any, expected: Any) -> None:
    """Hold what a variant gives against what the plain configuration gives: samples, records and numbers.

    The number that a budget is about is left to the budget. Of records all is compared where the variant declares no
    tolerance, else their fractions alone: what was predicted may change where two classes are nearly as likely.
    """
    tolerance = variant.tolerance
    if isinstance(seen, Raised) or isinstance(expected, Raised):
        expect(seen).equals(expected, about=f"what {name!r} gives")
        return
    left_out = None if variant.budget is None else variant.number
    both = [{key: value for key, value in one.numbers.items() if key != left_out} for one in (seen, expected)]
    jumps = variant.within is not None and variant.budget is None
    hint = "" if not jumps else "A number that jumps, such as an accuracy, is held by budget= and number=."
    expect(both[0]).equals(both[1], about=f"the numbers of {name!r}", tolerance=tolerance, detail=hint)
    if seen.records is not None and expected.records is not None:
        same_samples(name, seen, expected)
        first, second = (by_id(one, fractions_alone=not variant.lossless, without=left_out) for one in (seen, expected))
        expect(first).equals(second, about=f"the records of {name!r}, by id", tolerance=tolerance)


def same_samples(name: str, seen: Evaluated, expected: Evaluated) -> None:
    """Hold that both count the same samples as often."""
    first, second = (Counter(place for place, _ in told(one)) for one in (seen, expected))
    lines = [
        f"{word}: {few(sorted(places))}"
        for word, places in (("left out", second - first), ("counted in addition", first - second))
        if places
    ]
    about = f"the samples that {name!r} counts are not those of the plain configuration"
    expect(first).holds(not lines, about=about, detail="\n".join(lines))


def by_id(made: Evaluated, *, fractions_alone: bool, without: str | None) -> dict[int, dict[str, Any]]:
    """The records by the id of their sample, in the order of ids."""

    def compared(value: Any) -> bool:
        value = plain(value)
        return not fractions_alone or (isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral))

    found = sorted(told(made), key=lambda one: one[0])
    return {place: {k: v for k, v in entry.items() if k != without and compared(v)} for place, entry in found}


class Group(NamedTuple):
    """Samples that a budget is about together."""

    over: str
    """What to call them, behind the name of the number."""
    lost: Loss
    worst: int
    """The sample that loses most."""


def groups(name: str, variant: Variant, number: str, seen: Evaluated, expected: Evaluated) -> Iterator[Group]:
    """What a variant loses of ``number`` over all samples, or within each group of them.

    Of several groups every interval is as much wider as it takes for all of them to hold together (Bonferroni).

    Raises:
        TargetError: where records lack what the budget is about.
    """
    same_samples(name, seen, expected)
    first, second = ({place: _score(name, entry, number) for place, entry in told(one)} for one in (expected, seen))
    wrong = [place for place, value in second.items() if not math.isfinite(value) and math.isfinite(first[place])]
    expect(second).holds(not wrong, about=f"{name!r} gives no finite {number!r} of the samples {wrong[:8]}")
    if not all(map(math.isfinite, first.values())):
        raise NotApplicable(f"the plain {number!r} of a sample is not finite")
    found: dict[Any, list[int]] = {}
    for place, entry in sorted(told(expected), key=lambda one: one[0]):
        found.setdefault("" if variant.by is None else plain(_field(name, entry, variant.by)), []).append(place)
    better, worse = (second, first) if variant.less_is_better else (first, second)
    share = 1 - (1 - CONFIDENCE) / len(found)
    for group, places in sorted(found.items(), key=lambda one: str(one[0])):
        over = "" if variant.by is None else f" where {variant.by} is {group!r}"
        lost = loss([better[place] for place in places], [worse[place] for place in places], confidence=share)
        yield Group(over, lost, max(places, key=lambda place: better[place] - worse[place]))


def spend(name: str, variant: Variant, rows: Rows, seen: Any, expected: Any) -> list[str]:
    """Hold that a variant stays within its budget; what cannot be decided is given back, a line each."""
    if isinstance(seen, Raised) or isinstance(expected, Raised):
        expect(seen).equals(expected, about=f"what {name!r} gives")
        return []
    assert variant.budget is not None
    number, undecided = variant.number or _shared(name, expected), []
    found = list(groups(name, variant, number, seen, expected))
    _noted(name, variant, number, max(found, key=lambda one: one.lost.high))
    for over, lost, worst in found:
        verdict = lost.verdict(variant.budget)
        about = f"{name!r} loses more of {number!r} than its budget of {variant.budget:g}{over}"
        detail = f"it loses {lost}\nby the {lost.grounds}\nfor example sample {worst}: {show(rows[worst])}"
        expect(lost).holds(verdict != "beyond", about=about, detail=detail)
        if verdict == "undecided":
            undecided.append(f"{name!r} loses {lost} of {number!r}{over}, and its budget is {variant.budget:g}")
    return undecided


def _noted(name: str, variant: Variant, number: str, group: Group) -> None:
    """Of several groups the one that may lose most is told."""
    lost, sign = group.lost, 1 if variant.less_is_better else -1
    ends = sorted((sign * lost.low, sign * lost.high))
    finite = [end if math.isfinite(end) else None for end in ends]
    found = {"number": number + group.over, "change": sign * lost.mean + 0.0, "low": finite[0], "high": finite[1]}
    note(name, **found, budget=variant.budget, verdict=lost.verdict(variant.budget or 0.0))


def _unfit(evaluate: Any, variant: Variant) -> str:
    try:
        signature = inspect.signature(evaluate)
    except (TypeError, ValueError):  # some callables have none
        return ""
    try:
        signature.bind_partial(None, **variant.config)
    except TypeError as error:
        takes = list(signature.parameters)[1:]
        return f"{error}; evaluate takes {', '.join(takes) or 'no keywords'}"
    return ""


def _shared(name: str, made: Evaluated) -> str:
    """The one name that numbers and records have in common."""
    fields = dict.fromkeys(key for _, entry in told(made) for key in entry)
    both = [key for key in fields if key in made.numbers]
    if len(both) == 1:
        return both[0]
    raise _fault(name, f"records with {_names(fields)} and numbers with {_names(made.numbers)}", "number=, one of both")


def _score(name: str, entry: Mapping[str, Any], field: str) -> float:
    value = plain(_field(name, entry, field))
    if not isinstance(value, numbers.Real):
        raise _fault(name, f"a record with {field!r}: {value!r}", "a number for every sample")
    return float(value)


def _field(name: str, entry: Mapping[str, Any], field: str) -> Any:
    if field not in entry:
        raise _fault(name, f"a record with {_names(entry)}", f"the field {field!r}")
    return entry[field]


def _names(fields: Sequence[str] | Mapping[str, Any]) -> str:
    return ", ".join(map(repr, fields)) or "no fields"


def _fault(name: str, actual: str, expected: str) -> TargetError:
    return TargetError(
        f"the budget of {name!r} is about nothing that the loop tells",
        actual=actual,
        expected=expected,
        cause="variants",
    )
