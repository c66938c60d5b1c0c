"""EC010 to EC013: an error or an interval beside a value is as large as the value is uncertain."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean
from typing import Any

from hypothesis import strategies as st

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import expect, inconclusive
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.case import Plans, SamplesAndPlan, fixed_up_to
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.intervals import Coverage, Design, Interval, Stated, design_of
from pytest_evalcheck.kinds.common.subject import EstimatingSubject, Rows
from pytest_evalcheck.strategies.samples import SampleStrategy

_KINDS = 4
_TRUTHS = 20
"""Number of evaluations whose mean is the true value, where an error is drawn at random."""
_FEWEST_DRAWS = 30
_FEW = 40
_BLOCK = 20
"""Number of data sets after which it is decided whether more are drawn."""
_SIGMAS = 5


@dataclass(frozen=True, kw_only=True)
class Population(SamplesAndPlan):
    """Samples of which data sets are drawn, of which the last alone is predicted wrong, and the seed of the draws."""

    seed: int

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Any]:
        """Return no further cases: with each of them a false alarm would be as likely again."""
        del inputs
        return st.nothing()

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """One population, and one seed."""
        del n
        rows = fixed_up_to(inputs, _KINDS)
        if inputs.wrong is not None:
            right = inputs.right or (lambda sample: sample)
            rows = [*map(right, rows[:-1]), inputs.wrong(rows[-1])]
        return [(rows, 0)]


@check("EC010", examples=1)
def an_interval_holds_the_true_value_as_often_as_it_says(subject: EstimatingSubject, case: Population) -> None:
    """The share of data sets from one population whose interval holds the true value is the level of the interval.

    A 95 % interval may hold it in 93 to 97 %, and a normal interval is the value and 1.96 standard errors to each side.
    An honest interval fails with a probability of 1e-6: the bounds are those of the binomial distribution. An interval
    that is too narrow for few samples and right for four times as many is reported as such, and does not fail.

    Why: whether one model is better than another one is decided by the numbers behind the plus-minus sign.
    Usual cause: the error of another number: of a weighted mean beside an unweighted one, of samples beside a mean of
    clusters, or the mean of the errors of groups; a standard deviation that is not divided by the root of n.
    Fix: `sqrt(sum(error ** 2 for error in errors)) / len(errors)` beside the mean of groups.
    """
    for intervals, design in designs(subject, case):
        for interval, found in zip(intervals, covered(subject, intervals, design, case.seed), strict=True):
            if not isinstance(found, Coverage):
                continue
            if 0 < interval.draws < _FEWEST_DRAWS:
                inconclusive(f"{interval.draws} draws are too few for an interval of {interval.name!r}")
                continue
            way, level = found.way(interval.level), interval.level
            wrong = next((about for _, about in (each.problem for each in found.stated) if about), "")
            detail = "\n".join(filter(None, [wrong, found.describe(level)]))
            if way == "too narrow" and not interval.least:
                (more,) = covered(subject, [interval], design.times(4), case.seed)
                if isinstance(more, Coverage) and not more.way(level):
                    text = f"{detail}\n{more.describe(level)}".replace("\n", "; ")
                    inconclusive(f"too few samples for the interval of {interval.name!r}: {text}")
                    continue
            about = f"the {level:.0%} interval of {interval.name!r} is {way or 'right'}: it holds the true value"
            id = f"{slug(way or 'right')}-for-{slug(interval.name)}"
            expect(found.held).holds(not way, about=about, id=id, detail=detail)


@check("EC011", examples=1, after=("EC010",))
def an_error_is_a_number_that_fits_its_value(subject: EstimatingSubject, case: Population) -> None:
    """An error is finite and not negative, an interval holds its value, and the count beside it is that of the samples.

    An error of 0 means that all samples agree: of one sample alone, or without the number of samples, it says nothing.
    NaN, an error or `N/A` may say that one sample, or equal ones, have no error, and an interval of equal scores may
    lie beside them (as that of Jeffreys does).

    Why: 1.0 with an error of 0.0 looks like the most certain of all results, and may be one document.
    Usual cause: `return 0` where a spread is not defined; a lower end that is cut off above the value.
    Fix: `float("nan")` for the error of one sample, and the number of samples beside it.
    """
    for intervals, design in designs(subject, case):
        for interval in intervals:
            many, alike = design.balanced(), design.alike().balanced()
            drawn = map(subject.estimates, islice(design.drawn(case.seed), 8))
            varies = len({each.value for each in stated(interval, drawn)}) > 1
            one = [] if interval.group or interval.cluster else alike[: max(1, subject.inputs.min_samples)]
            for where, rows in (("many samples", many), ("equal samples", alike), ("one sample", one)):
                for each in stated(interval, map(subject.estimates, [rows] if rows else [])):
                    wrong, about = each.problem
                    none = wrong in ("not-finite", "outside") and rows is not many
                    zero = each.width == 0 and ((rows is many and varies) or (len(rows) == 1 and each.count is None))
                    about = f"the error of {where} is 0" if zero else about
                    wrong = "zero" if zero else "" if none else wrong
                    about = f"{interval.name!r} of {where}: {about or 'the error is a number'}"
                    expect(each.width).holds(not wrong, about=about, id=f"{wrong or 'number'}-of-{slug(where)}")
                    if each.count is not None:
                        about = f"the number of samples beside {interval.name!r} of {where}"
                        expect(each.count).equals(len(rows), about=about, id=f"count-of-{slug(where)}")


@check("EC012", examples=1, after=("EC011",))
def an_error_depends_on_the_samples_alone(subject: EstimatingSubject, case: Population) -> None:
    """An error or interval is the same in any order of the samples, and in batches of any size.

    An error that is drawn at random, such as by bootstrap, is compared within five standard deviations of its draws.

    Why: the error of a run must not depend on the memory of the machine.
    Usual cause: a bootstrap that draws within each batch, or the standard deviation of the means of batches.
    Fix: draw from all samples, or draw for each sample how often it counts: `torch.poisson(torch.ones(n))`.
    """
    for intervals, design in designs(subject, case):
        for interval in intervals:
            rows = design.balanced()
            rows = rows[: len(rows) if interval.group or interval.cluster else _FEW]
            expected = measured(subject, interval, rows)
            if expected is None:
                continue
            sorted_rows = [rows[i] for first in range(_KINDS) for i in range(first, len(rows), _KINDS)]
            ways = {"other-order": (sorted_rows, None), "batches-of-one": (rows, 1), "batches-of-seven": (rows, 7)}
            for way, (ordered, size) in ways.items():
                actual = measured(subject, interval, ordered, size)
                about, factor = f"the error of {interval.name!r}, {way.replace('-', ' ')}", drawn_apart(interval)
                if actual is not None and interval.draws:
                    near = expected / factor <= actual <= expected * factor
                    about = f"{about}, is not within a factor of {factor:.2g} of {expected:.3g}"
                    expect(actual).holds(near, about=about, id=f"drawn-error-in-{way}")
                elif actual is not None:
                    expect(actual).equals(expected, about=about, id=f"error-in-{way}")


@check("EC013", examples=1, after=("EC010", "EC011", "EC012"))
def an_error_shrinks_with_the_root_of_the_number_of_samples(subject: EstimatingSubject, case: Population) -> None:
    """The error of four times as many samples, each of which occurs four times as often, is half as large.

    Why: an error that does not shrink makes every difference look like chance, however much is measured.
    Usual cause: a standard deviation in place of a standard error, or an error that is divided by n.
    Fix: `statistics.stdev(scores) / math.sqrt(len(scores))`.
    """
    for intervals, design in designs(subject, case):
        for interval in intervals:
            once, four = (measured(subject, interval, design.times(factor).balanced()) for factor in (1, 4))
            if not once or four is None:
                inconclusive(f"no error of {interval.name!r} is above 0")
                continue
            factor, ratio = 1.1 * drawn_apart(interval), four / once
            about = (
                f"the error of {interval.name!r} of four times as many samples is {ratio:.3g} times that of the samples"
            )
            near = 0.5 / factor <= ratio <= 0.5 * factor
            expect(ratio).holds(near, about=about, id="error-of-more-samples", detail=f"{four:.4g} beside {once:.4g}")


def designs(subject: EstimatingSubject, case: Population) -> Iterator[tuple[list[Interval], Design]]:
    """Yield intervals that can be read from the same results, and the data sets for them.

    Raises:
        NotApplicable: where there are none.
    """
    by_design: dict[Any, list[Interval]] = {}
    for interval in subject.intervals():
        by_design.setdefault((interval.group, interval.cluster, interval.least), []).append(interval)
    for intervals in by_design.values():
        yield intervals, design_of(intervals[0], copy.deepcopy(case.samples), subject.size)


def stated(interval: Interval, results: Iterable[Any]) -> list[Stated]:
    """Return what results state about a value; none of errors, and of values without an error."""
    found = []
    for result in results:
        each = interval.read(result)
        if isinstance(each, Raised):
            inconclusive(str(each))
        elif each is None:
            inconclusive(f"no error is stated beside {interval.name!r}")
        else:
            found.append(each)
    return found


def covered(
    subject: EstimatingSubject, intervals: Sequence[Interval], design: Design, seed: int
) -> list[Coverage | None]:
    """Return the coverage of each interval; None where it is not always stated, or where the values do not vary.

    Data sets are drawn until none of the intervals can pass any more.
    """
    balanced = [subject.estimates(design.balanced()) for _ in range(_TRUTHS if intervals[0].draws else 1)]
    true = [stated(interval, balanced) for interval in intervals]
    found: list[list[Stated]] = [[] for _ in intervals]
    trials = min(subject.trials, *(interval.trials for interval in intervals))
    for number, rows in enumerate(islice(design.drawn(seed), trials), 1):
        result = subject.estimates(rows)
        for interval, own in zip(intervals, found, strict=True):
            own += stated(interval, [result])
        coverages = [
            Coverage(fmean(each.value for each in values), design.size, trials, own)
            if values and len(own) == number
            else None
            for values, own in zip(true, found, strict=True)
        ]
        if number % _BLOCK == 0 and all(
            each is None or each.way(interval.level) for each, interval in zip(coverages, intervals, strict=True)
        ):
            break
    return [known_to_vary(interval, each) for interval, each in zip(intervals, coverages, strict=True)]


def known_to_vary(interval: Interval, coverage: Coverage | None) -> Coverage | None:
    """Return the coverage, and None where all data sets have one value."""
    if coverage is not None and coverage.spread == 0:
        inconclusive(f"{interval.name!r} is {coverage.true:g} for all data sets that were drawn")
        return None
    return coverage


def measured(subject: EstimatingSubject, interval: Interval, rows: Rows, size: int | None = None) -> float | None:
    """Return the error of samples, or half of their interval."""
    found = stated(interval, [subject.estimates(rows, size)])
    return found[0].width if found else None


def drawn_apart(interval: Interval) -> float:
    """Return the factor by which two errors may differ that are drawn at random: five standard deviations."""
    # A standard deviation of normal draws has a relative one of 1 / sqrt(2 * (draws - 1)), and there are two.
    return math.exp(_SIGMAS / math.sqrt(max(1, interval.draws - 1))) if interval.draws else 1.0
