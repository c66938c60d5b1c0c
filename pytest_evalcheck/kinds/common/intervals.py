"""Errors and intervals beside a value: which numbers of a result they are, and how often an interval must be right."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from statistics import NormalDist
from typing import Any

from pytest_evalcheck.errors import nearest, safe_text
from pytest_evalcheck.expectations.comparison import Raised, plain, show
from pytest_evalcheck.expectations.failures import CheckFailure, TargetError
from pytest_evalcheck.strategies.samples import Sample

Key = str | int | None
"""The name of a number in a mapping, or its place in a sequence."""
Place = Callable[[Sample, int], Sample]
"""``place(sample, number)`` returns the sample as a member of the group or cluster with this number."""
NOT_STATED = ("", "n/a", "nan", "none", "-")
"""Texts that stand for a number that is not stated."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Names of a value and of its uncertainty: a standard error, or the two ends of an interval.

    >>> Interval(value="acc", error="acc_stderr")
    Interval(value='acc', error='acc_stderr')
    >>> Interval(value="acc", low="lower")
    Traceback (most recent call last):
      ...
    TypeError: Interval(value='acc', low='lower') has one end; expected error=..., or both low=... and high=...
    """

    value: Key
    error: Key = None
    """The standard error; the interval is the value and as many errors to each side as ``level`` asks for."""
    low: Key = None
    high: Key = None
    level: float = 0.95
    """The probability with which the interval holds the true value."""
    count: Key = None
    """The number of samples, where the result has it."""
    draws: int = 0
    """The number of random draws, such as bootstraps, that the error is computed from; 0 for none."""
    least: int = 0
    """The number of samples from which the documentation says that the interval holds; 0 where it does not say."""
    trials: int = 600
    """The most data sets from which the coverage is counted; fewer where each of them is a run that takes long."""
    group: Place | None = None
    """Puts a sample into a group, where the value is the mean of groups."""
    cluster: Place | None = None
    """Puts a sample into a cluster, where samples of a cluster are alike and the error allows for that."""

    def __repr__(self) -> str:
        given = {name: getattr(self, name) for name in ("value", "error", "low", "high", "count")}
        return f"Interval({', '.join(f'{name}={key!r}' for name, key in given.items() if key is not None)})"

    def __post_init__(self) -> None:
        ends = (self.low is None) + (self.high is None)
        if self.value is None:
            raise TypeError(f"{self} names no value; expected value=..., a name in the result")
        if ends == 1:
            raise TypeError(f"{self} has one end; expected error=..., or both low=... and high=...")
        if (self.error is None) == (ends == 2):
            raise TypeError(f"{self}; expected either error=... or both low=... and high=...")
        if not 0.5 <= self.level < 1:
            raise TypeError(f"{self} has level={self.level!r}; expected a probability such as 0.95")
        if self.draws < 0 or self.least < 0 or self.trials < 1:
            given = ", ".join(f"{name}={getattr(self, name)!r}" for name in ("draws", "least", "trials"))
            raise TypeError(f"{self} has {given}; expected numbers of at least 0, and a trial")
        if self.group is not None and self.cluster is not None:
            raise TypeError(f"{self} has groups and clusters; expected one of them")

    @property
    def name(self) -> str:
        """The name of the value."""
        return str(self.value)

    def read(self, result: Any) -> Stated | Raised | None:
        """Return what a result states; the error that it is; None where it states no error.

        Raises:
            TargetError: where the result has no such number, or where one of the two stands alone.
        """
        if isinstance(result, Raised):
            return result
        value = read_number(result, self.value)
        beside = [read_number(result, key) for key in (self.error, self.low, self.high) if key is not None]
        count = None if self.count is None else read_number(result, self.count)
        if value is None and any(number is not None for number in beside):
            raise _alone(self, result, f"{self.name!r} has an error and is no number")
        if all(number is None for number in beside) or value is None:
            return None
        stated = [number for number in beside if number is not None]
        if len(stated) < len(beside):
            raise _alone(self, result, f"one end of the interval of {self.name!r} is no number")
        if self.error is None:
            low, high = stated
            return Stated(value, low, high, None, count)
        width = -NormalDist().inv_cdf((1 - self.level) / 2) * stated[0]
        return Stated(value, value - width, value + width, stated[0], count)


@dataclass(frozen=True)
class Stated:
    """One value of a result with the interval that it states."""

    value: float
    low: float
    high: float
    error: float | None
    count: float | None

    @property
    def width(self) -> float:
        """The standard error, or the half of the interval."""
        return (self.high - self.low) / 2 if self.error is None else self.error

    @property
    def problem(self) -> tuple[str, str]:
        """An id and a sentence about what no error or interval can be; two empty texts where it is one."""
        if not math.isfinite(self.width):
            return "not-finite", f"the error of {self.value:g} is {self.width:g}"
        if self.width < 0:
            ends = f"the interval is reversed: from {self.low:g} to {self.high:g}"
            return "negative", f"the error of {self.value:g} is {self.error:g}" if self.error is not None else ends
        rounding = 1e-6 * (1 + abs(self.value))
        if not self.low - rounding <= self.value <= self.high + rounding:
            return "outside", f"the interval from {self.low:g} to {self.high:g} does not hold its value, {self.value:g}"
        return "", ""


def read_number(result: Any, key: Key) -> float | None:
    """Return the number of a result that a key names; None for one that is not stated, or an array of several.

    Raises:
        TargetError: where the result has no such number, or where it is none.
    """
    try:
        found = plain(plain(result)[key])
    except (LookupError, TypeError):
        names = [str(name) for name in result] if isinstance(result, Mapping) else []
        raise TargetError(
            f"the result has no number {key!r}{nearest(str(key), names)}",
            actual=show(result)[:200],
            expected="a mapping or a tuple with the numbers that ec.Interval, ec.Counts or ec.Repeated names",
            cause="numbers",
        ) from None
    if (
        found is None
        or getattr(found, "shape", None)
        or (isinstance(found, str) and found.strip().lower() in NOT_STATED)
    ):
        return None
    if not isinstance(found, numbers.Real):
        raise TargetError(f"{key!r} is no number", actual=show(found)[:200], expected="a number", cause="numbers")
    return float(found)


def _alone(interval: Interval, result: Any, about: str) -> TargetError:
    return TargetError(
        about, actual=show(result)[:200], expected=f"both or neither, as {interval} says", cause="numbers"
    )


def require_intervals(record: Any) -> None:
    """Look whether the intervals of a record are ones.

    Raises:
        TypeError: where they are no sequence of `Interval`.
    """
    given = record.intervals
    if isinstance(given, Interval) or not isinstance(given, Sequence):
        raise TypeError(f"intervals={safe_text(given)}; expected a list of ec.Interval")
    for each in given:
        if not isinstance(each, Interval):
            raise TypeError(f"intervals has {safe_text(each)}; expected ec.Interval(value=..., error=...)")


def drawn_number(subject: Any, failure: CheckFailure) -> str:
    """Return the name of the number that differs in a failure if its interval says that it is drawn; else ''."""
    if not failure.contrast.startswith("another number for "):
        return ""  # what cannot be made has no record to ask
    intervals = getattr(subject.build(), "intervals", ())
    keys = [key for each in intervals if each.draws for key in (each.value, each.error, each.low, each.high)]
    return next((repr(key) for key in keys if failure.contrast == f"another number for {key!r}"), "")


@dataclass(frozen=True)
class Design:
    """Data sets of one population: strata of samples that are drawn with replacement, so many of each."""

    strata: Sequence[tuple[Sequence[Sample], int]]
    cluster: Place | None = None
    """Puts every draw into a cluster of its own, of `IN_CLUSTER` equal samples."""

    @property
    def size(self) -> int:
        """The number of samples in a data set."""
        return sum(count for _, count in self.strata) * (IN_CLUSTER if self.cluster else 1)

    def drawn(self, seed: int) -> Iterator[list[Sample]]:
        """Yield data sets without end, always the same ones for a seed."""
        dice = Random(seed)
        while True:
            yield self._clustered([row for rows, count in self.strata for row in dice.choices(rows, k=count)])

    def balanced(self) -> list[Sample]:
        """Return a data set that has each sample of a stratum equally often: its value is the true one."""
        return self._clustered([row for rows, count in self.strata for row in [*rows] * math.ceil(count / len(rows))])

    def times(self, factor: int) -> Design:
        """Return the design of data sets that have ``factor`` times as many samples."""
        return Design([(rows, factor * count) for rows, count in self.strata], self.cluster)

    def alike(self) -> Design:
        """Return the design of data sets of equal samples."""
        return Design([([rows[0]], count) for rows, count in self.strata], self.cluster)

    def _clustered(self, rows: list[Sample]) -> list[Sample]:
        place = self.cluster
        return (
            rows if place is None else [member for i, row in enumerate(rows) for member in [place(row, i)] * IN_CLUSTER]
        )


IN_CLUSTER = 3
SIZE, CLUSTERS, SMALL = 100, 100, 56
GROUPS = (20, 20, 20, 200)
"""Sizes at which a normal interval of a share of 3/4, or of 1/2 in a small group, holds it in 94 to 95 %; `SMALL` is
the size of a data set that is evaluated as a whole by a loop."""
TOLERATED = 0.02
"""Points by which an honest interval may be off."""
FALSE_ALARM = 1e-6
"""The probability with which an interval that is off by no more than that fails."""


def design_of(interval: Interval, samples: Sequence[Sample], size: int = SIZE) -> Design:
    """Return data sets of so many of these samples; in groups or clusters where the interval names them.

    In groups, all but the last group have the first and the last sample alone.
    """
    if interval.group is not None:
        place, last = interval.group, len(GROUPS) - 1
        rows = [samples if number == last else [samples[0], samples[-1]] for number in range(len(GROUPS))]
        return Design([([place(row, g) for row in rows[g]], size) for g, size in enumerate(GROUPS)])
    return Design([(samples, CLUSTERS if interval.cluster else interval.least or size)], interval.cluster)


@cache
def bounds(trials: int, level: float = 0.95) -> tuple[int, int]:
    """Return the least and the most trials in which an honest interval may hold the true value.

    An interval of a coverage between ``level`` - `TOLERATED` and ``level`` + `TOLERATED` is outside with a probability
    of `FALSE_ALARM` at most on each side, by the binomial distribution.

    >>> bounds(500)
    (435, 499)
    """
    low, high = max(0.0, level - TOLERATED), min(1.0, level + TOLERATED)
    least, most = 0, trials
    below, above = probability_of(trials, low), probability_of(trials, high)
    total = below[0]
    while total <= FALSE_ALARM:
        least += 1
        total += below[least]
    total = above[trials]
    while total <= FALSE_ALARM:
        most -= 1
        total += above[most]
    return least, most


def power(trials: int, coverage: float, level: float = 0.95) -> float:
    """Return the probability with which an interval of this coverage fails.

    >>> round(power(500, 0.45), 6), power(500, 0.95) < 1e-6
    (1.0, True)
    """
    (least, most), chances = bounds(trials, level), probability_of(trials, coverage)
    return math.fsum(chances[:least]) + math.fsum(chances[most + 1 :])


def probability_of(trials: int, share: float) -> list[float]:
    """Return the binomial probability of each number of successes, from 0 to ``trials``."""
    if share in (0.0, 1.0):
        return [float(successes == trials * share) for successes in range(trials + 1)]
    return [
        math.exp(
            math.lgamma(trials + 1)
            - math.lgamma(successes + 1)
            - math.lgamma(trials - successes + 1)
            + successes * math.log(share)
            + (trials - successes) * math.log1p(-share)
        )
        for successes in range(trials + 1)
    ]


@dataclass(frozen=True)
class Coverage:
    """Data sets of which an interval does or does not hold the true value; fewer than planned where it cannot pass."""

    true: float
    size: int
    planned: int
    stated: Sequence[Stated]

    @property
    def held(self) -> int:
        """The number of intervals that hold the true value."""
        rounding = 1e-6 * (1 + abs(self.true))
        return sum(each.low - rounding <= self.true <= each.high + rounding for each in self.stated)

    @property
    def spread(self) -> float:
        """The standard deviation of the values: what the standard error is to be."""
        values = [each.value for each in self.stated]
        mean = math.fsum(values) / len(values)
        return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / max(1, len(values) - 1))

    def way(self, level: float) -> str:
        """Return ``too narrow`` or ``too wide``, or ''."""
        least, most = bounds(self.planned, level)
        missed = len(self.stated) - self.held
        return "too narrow" if missed > self.planned - least else "too wide" if self.held > most else ""

    def describe(self, level: float) -> str:
        """Describe it in two lines."""
        trials, width = len(self.stated), math.fsum(each.width for each in self.stated) / len(self.stated)
        least, most = bounds(self.planned, level)
        beside = "standard error" if self.stated[0].error is not None else "half of the interval"
        share, planned = f"{self.held / trials:.0%}", f"{least} to {most} of {self.planned}"
        return (
            f"in {self.held} of {trials} data sets of {self.size} samples ({share}), {planned} are expected\n"
            f"values around {self.true:.4g} spread by {self.spread:.3g}; the mean {beside} is {width:.3g}"
        )
