"""EC520 and EC521: faster configurations of a loop, compared with the plain one on the same samples, and measured."""

from __future__ import annotations

import inspect
import math
import numbers
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from pytest_evalcheck.expectations.comparison import Raised, plain, show
from pytest_evalcheck.expectations.failures import NotApplicable, TargetError, current_stats, expect
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.process_state import restored_settings, same_random_numbers
from pytest_evalcheck.kinds.common.subject import Rows
from pytest_evalcheck.kinds.loop.cases import Evaluation, UnselectedSamples, unselected
from pytest_evalcheck.kinds.loop.record import Evaluated
from pytest_evalcheck.kinds.loop.subject import (
    BATCH_SIZE,
    LoopSubject,
    first_eight,
    ids_of,
    read_result,
    records_of,
)
from pytest_evalcheck.variants import PLAIN, Variant, read
from pytest_evalcheck.variants.measurement import LEAST_ROUNDS, Cost, side_by_side
from pytest_evalcheck.variants.paired_difference import CONFIDENCE, Loss, loss


@check("EC520", conditions=("full batches", "a last batch of one", "a last batch that is not full"), after=("EC504",))
def a_variant_gives_the_numbers_of_the_plain_configuration(loop: LoopSubject, case: Evaluation) -> None:
    """An optimised configuration gives the numbers of the plain one, within the tolerance it declares.

    It counts the same samples, with the same record of each. Its speed and memory are measured beside the plain
    configuration in the same run, and reported.

    Why: a faster evaluation is worth nothing where its numbers are those of another model.
    Usual cause: a buffer outlives the batch it was allocated for, or results come back in the order of completion.
    Fix: pytest_evalcheck.fixes.loops.PredictionsById
    """
    variants = declared(loop, budgeted=False)
    measure(loop, {name: variant for name, variant in variants.items() if variant.budget is None})
    for rows, size in _short_and_long(loop, case.samples, case.batch_size):
        expected = evaluate(loop, rows, batch_size=size)
        for name, variant in variants.items():
            expect_same(name, variant, evaluate(loop, rows, variant, size), expected)


@check("EC521", examples=1, after=("EC520",))
def a_variant_stays_within_its_accuracy_budget(loop: LoopSubject, case: UnselectedSamples) -> None:
    """A variant that trades accuracy for speed loses no more than its budget, sample by sample on the same samples.

    The losses are paired, and their 95 % interval decides: broken is what lies beyond the budget altogether, kept what
    lies within it; where the budget is inside, there are too few samples to say. Scores of 0 and 1 have Tango's score
    interval of paired proportions (1998), others a paired bootstrap (BCa, Efron and Tibshirani 1993, a fixed seed).

    Why: two averages that look alike hide losses that are all on one side, or all in one class.
    Usual cause: calibration on other data, a layer that should have stayed in full precision, samples left out.
    Fix: keep the layers that lose most in full precision, `skip_modules=['lm_head']`, or declare the loss that there
    is.
    """
    variants, undecided = declared(loop, budgeted=True), []
    measure(loop, variants)
    rows = case.rows_for(loop.inputs)
    expected = evaluate(loop, rows)
    for name, variant in variants.items():
        undecided += expect_within_budget(name, variant, rows, evaluate(loop, rows, variant), expected)
    if undecided:
        raise NotApplicable(f"too few samples to decide: {'; '.join(undecided)}")


def declared(loop: LoopSubject, *, budgeted: bool) -> dict[str, Variant]:
    """The variants that declare a budget, or those that are compared by a tolerance.

    Raises:
        NotApplicable: where there is none.
        TargetError: where one is not a valid variant, or ``evaluate`` does not take its keywords.
    """
    record = loop.record
    problems: list[str] = []
    variants = {**read(loop.variants, problems), **read(record.variants, problems)}
    for name, variant in variants.items():
        if problem := _wrong_keywords(record.evaluate, variant):
            problems.append(f"variants[{name!r}]: {problem}")
    if problems:
        more = "\n".join(problems[1:])
        raise TargetError("a variant cannot be evaluated", actual=problems[0], detail=more, cause="variants")
    if not variants:
        raise NotApplicable("the target names no variants")
    if budgeted:
        chosen = {name: variant for name, variant in variants.items() if variant.budget is not None}
    else:
        chosen = {name: item for name, item in variants.items() if item.budget is None or item.within is not None}
    if not chosen:
        raise NotApplicable("no variant declares a budget" if budgeted else "all variants declare a budget alone")
    return chosen


def evaluate(loop: LoopSubject, rows: Rows, variant: Variant | None = None, batch_size: int | None = None) -> Any:
    """The result of a new loop in a configuration, as `Evaluated`, or the error.

    ``batch_size`` is for configurations that do not choose one; None leaves it to the loop.
    """
    run, config = loop.fresh(), {} if variant is None else variant.config
    size: dict[str, Any] = {} if batch_size is None or BATCH_SIZE in config else {BATCH_SIZE: batch_size}
    return run.call("evaluate()", partial(run.record.evaluate, **config), loop.data(rows), **size)


def expect_same(name: str, variant: Variant, actual: Any, expected: Any) -> None:
    """Compare a variant with the plain configuration: samples, records and numbers.

    The number of a budget is left to EC521. Of records all is compared where the variant declares no tolerance, else
    their fractions alone: a prediction may change where two classes are nearly as likely.
    """
    tolerance = variant.tolerance
    if isinstance(actual, Raised) or isinstance(expected, Raised):
        expect(actual).equals(expected, about=f"the result of {name!r}", id=f"result-of-{slug(name)}")
        return
    skipped = None if variant.budget is None else variant.number
    both = [{key: value for key, value in item.numbers.items() if key != skipped} for item in (actual, expected)]
    jumps = variant.within is not None and variant.budget is None
    hint = "" if not jumps else "A number that jumps, such as an accuracy, needs budget= and number=."
    expect(both[0]).equals(
        both[1], about=f"the numbers of {name!r}", id=f"numbers-of-{slug(name)}", tolerance=tolerance, detail=hint
    )
    if actual.records is not None and expected.records is not None:
        _expect_same_samples(name, actual, expected)
        fields = [_by_id(item, fractions=not variant.lossless, skipped=skipped) for item in (actual, expected)]
        expect(fields[0]).equals(
            fields[1], about=f"the records of {name!r}, by id", id=f"records-of-{slug(name)}", tolerance=tolerance
        )


def expect_within_budget(name: str, variant: Variant, rows: Rows, actual: Any, expected: Any) -> list[str]:
    """Check that a variant stays within its budget; returns one line for every group that is undecided."""
    if isinstance(actual, Raised) or isinstance(expected, Raised):
        expect(actual).equals(expected, about=f"the result of {name!r}", id=f"result-of-{slug(name)}")
        return []
    assert variant.budget is not None
    number, undecided = variant.number or _shared_name(name, expected), []
    groups = list(_losses(name, variant, number, actual, expected))
    _add_to_report(name, variant, number, max(groups, key=lambda group: group.lost.high))
    for where, lost, worst in groups:
        verdict = lost.verdict(variant.budget)
        about = f"{name!r} loses more of {number!r} than its budget of {variant.budget:g}{where}"
        detail = f"it loses {lost}\nby the {lost.basis}\nfor example sample {worst}: {show(rows[worst])}"
        expect(lost).holds(
            verdict != "beyond",
            about=about,
            id=f"budget-of-{slug(name)}-for-{slug(number)}{where and '-' + slug(where)}",
            detail=detail,
        )
        if verdict == "undecided":
            undecided.append(f"{name!r} loses {lost} of {number!r}{where}, and its budget is {variant.budget:g}")
    return undecided


_LONG = 130
_LONG_BATCH = 32


def _short_and_long(loop: LoopSubject, rows: Rows, batch_size: int) -> list[tuple[Rows, int]]:
    """The samples and a batch size; then more than a hundred: each several times, in their order and reversed.

    A sum goes wrong in hundreds of steps, not in ten, and a batch of long samples comes before one of short samples.
    """
    if loop.inputs.distinct is not None:
        return [(rows, batch_size)]
    both_ways = [*rows, *reversed(rows)]
    times = math.ceil(_LONG / len(both_ways))
    return [(rows, batch_size), ([row for row in both_ways for _ in range(times)], max(batch_size, _LONG_BATCH))]


def _expect_same_samples(name: str, actual: Evaluated, expected: Evaluated) -> None:
    first, second = (Counter(ids_of(records_of(item))) for item in (actual, expected))
    lines = [
        f"{word}: {first_eight(sorted(samples))}"
        for word, samples in (("left out", second - first), ("counted in addition", first - second))
        if samples
    ]
    about = f"the samples that {name!r} counts are not those of the plain configuration"
    expect(first).holds(not lines, about=about, id=f"samples-of-{slug(name)}", detail="\n".join(lines))


def _by_id(result: Evaluated, *, fractions: bool, skipped: str | None) -> dict[int, dict[str, Any]]:
    """The records by the id of their sample, in the order of ids; with ``fractions`` only fields that are one."""

    def compared(value: Any) -> bool:
        value = plain(value)
        return not fractions or (isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral))

    records = sorted(records_of(result), key=lambda record: record[0])
    return {i: {k: v for k, v in fields.items() if k != skipped and compared(v)} for i, fields in records}


class Group(NamedTuple):
    """The loss of a group of samples under one budget."""

    where: str
    """The name of the group, for messages."""
    lost: Loss
    worst: int
    """The sample that loses most."""


def _losses(name: str, variant: Variant, number: str, actual: Evaluated, expected: Evaluated) -> Iterator[Group]:
    """Yield what a variant loses of ``number`` over all samples, or within each group of them.

    With several groups every interval is wider, so that all of them hold together (Bonferroni).

    Raises:
        TargetError: where records lack the number, or the field of the groups.
    """
    _expect_same_samples(name, actual, expected)
    first, second = ({i: _score(name, fields, number) for i, fields in records_of(r)} for r in (expected, actual))
    wrong = [i for i, value in second.items() if not math.isfinite(value) and math.isfinite(first[i])]
    expect(second).holds(
        not wrong,
        about=f"{name!r} gives no finite {number!r} of the samples {wrong[:8]}",
        id=f"finite-{slug(number)}-of-{slug(name)}",
    )
    if not all(map(math.isfinite, first.values())):
        raise NotApplicable(f"the plain {number!r} of a sample is not finite")
    groups: dict[Any, list[int]] = {}
    for i, fields in sorted(records_of(expected), key=lambda record: record[0]):
        groups.setdefault("" if variant.by is None else plain(_field(name, fields, variant.by)), []).append(i)
    better, worse = (second, first) if variant.less_is_better else (first, second)
    confidence = 1 - (1 - CONFIDENCE) / len(groups)
    for group, samples in sorted(groups.items(), key=lambda item: str(item[0])):
        where = "" if variant.by is None else f" where {variant.by} is {group!r}"
        lost = loss([better[i] for i in samples], [worse[i] for i in samples], confidence=confidence)
        yield Group(where, lost, max(samples, key=lambda i: better[i] - worse[i]))


def _wrong_keywords(function: Any, variant: Variant) -> str:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some callables have none
        return ""
    try:
        signature.bind_partial(None, **variant.config)
    except TypeError as error:
        keywords = list(signature.parameters)[1:]
        return f"{error}; evaluate takes {', '.join(keywords) or 'no keywords'}"
    return ""


def _shared_name(name: str, result: Evaluated) -> str:
    """The one name that numbers and records have in common."""
    fields = dict.fromkeys(key for _, entry in records_of(result) for key in entry)
    both = [key for key in fields if key in result.numbers]
    if len(both) == 1:
        return both[0]
    actual = f"records with {_names(fields)} and numbers with {_names(result.numbers)}"
    raise _budget_error(name, actual, "number=, one of both")


def _score(name: str, fields: Mapping[str, Any], field: str) -> float:
    value = plain(_field(name, fields, field))
    if not isinstance(value, numbers.Real):
        raise _budget_error(name, f"a record with {field!r}: {value!r}", "a number for every sample")
    return float(value)


def _field(name: str, fields: Mapping[str, Any], field: str) -> Any:
    if field not in fields:
        raise _budget_error(name, f"a record with {_names(fields)}", f"the field {field!r}")
    return fields[field]


def _names(fields: Iterable[str]) -> str:
    return ", ".join(map(repr, fields)) or "no fields"


def _budget_error(name: str, actual: str, expected: str) -> TargetError:
    about = f"the budget of {name!r} does not match the records of the loop"
    return TargetError(about, actual=actual, expected=expected, cause="variants")


_MOST_MEASURED = 128
_FEWEST_MEASURED = 32
_PROBED = 8
_CALLS = LEAST_ROUNDS + 3
"""Number of evaluations of a configuration: for its numbers, to warm up, for its memory, and in rounds."""


def measure(loop: LoopSubject, variants: Mapping[str, Variant]) -> None:
    """Measure variants for the report of this cell, once, and only where the cell asks for it. Nothing is judged."""
    stats = current_stats()
    if stats is None or not stats.seconds or stats.variants or not variants:
        return
    stats.variants = {PLAIN: {"name": PLAIN}}  # measured, even where nothing comes of it
    with restored_settings(), same_random_numbers():
        stats.variants.update(_costs(loop, variants, stats.seconds))


def _add_to_report(name: str, variant: Variant, number: str, group: Group) -> None:
    """Add the loss to what was measured of a variant; of several groups the one that may lose most."""
    stats = current_stats()
    if stats is None or name not in stats.variants:
        return
    lost, sign = group.lost, 1 if variant.less_is_better else -1
    low, high = (end if math.isfinite(end) else None for end in sorted((sign * lost.low, sign * lost.high)))
    stats.variants[name].update(
        number=number + group.where,
        change=sign * lost.mean + 0.0,
        low=low,
        high=high,
        budget=variant.budget,
        verdict=lost.verdict(variant.budget or 0.0),
    )


def _costs(loop: LoopSubject, variants: Mapping[str, Variant], seconds: float) -> dict[str, dict[str, Any]]:
    """Return the cost of the plain configuration and of each variant by name, except those that raise an error.

    Slow loops evaluate fewer samples, so that all of it takes about ``seconds``, but never fewer than 32.
    """
    evaluates = {PLAIN: loop.fresh().record.evaluate}
    evaluates |= {name: partial(loop.fresh().record.evaluate, **item.config) for name, item in variants.items()}
    rows = _affordable(loop, evaluates[PLAIN], seconds / (_CALLS * len(evaluates)))
    calls = {name: partial(function, loop.data(rows)) for name, function in evaluates.items()}
    results = {name: attempt("evaluate", lambda call=call: read_result(call())) for name, call in calls.items()}
    working = {name: call for name, call in calls.items() if not isinstance(results[name], Raised)}
    if PLAIN not in working or len(working) < 2:
        return {}
    costs = side_by_side(working, seconds=seconds * LEAST_ROUNDS / _CALLS, device=loop.device)
    base = costs[PLAIN], results[PLAIN].numbers
    return {name: _row(name, len(rows), cost, results[name].numbers, *base) for name, cost in costs.items()}


def _affordable(loop: LoopSubject, function: Callable[..., Any], seconds: float) -> Rows:
    """Return as many samples as one call of ``function`` evaluates in so many seconds."""
    rows = unselected(loop.inputs, max(_MOST_MEASURED, loop.inputs.min_samples))
    few = rows[: max(_PROBED, loop.inputs.min_samples)]
    attempt("evaluate", function, loop.data(few))  # a first call may import
    started = time.perf_counter()
    attempt("evaluate", function, loop.data(few))
    elapsed = time.perf_counter() - started
    return rows[: max(_FEWEST_MEASURED, len(few), int(len(few) * seconds / max(elapsed, 1e-9)))]


def _row(
    name: str, samples: int, cost: Cost, result: Mapping[str, float], base: Cost, expected: Mapping[str, float]
) -> dict[str, Any]:
    """One line of the report: speed in samples per second, memory in bytes, and the change of the numbers."""
    drifts = [abs(result[key] - value) / max(1.0, abs(value)) for key, value in expected.items() if key in result]
    return {
        "name": name,
        "samples": samples,
        "rounds": cost.rounds,
        "speed": samples / cost.seconds,
        "speedup": base.seconds / cost.seconds,
        "memory": cost.memory,
        "memory_ratio": cost.memory / base.memory if cost.memory is not None and base.memory else None,
        "numbers": {key: value if math.isfinite(value) else None for key, value in result.items()},
        # The most that a number moved, relative to the larger of its plain value and 1.
        "drift": max((drift for drift in drifts if math.isfinite(drift)), default=None),
    }
