"""Declarations of a scorer about what its numbers count: documents behind a mean, and tries behind a score."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, multimode
from typing import Any

from pytest_evalcheck.errors import nearest, safe_text
from pytest_evalcheck.kinds.common.intervals import Key


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Names of a mean in a summary, of the documents that it is about, and of those that it leaves out."""

    value: Key
    """The mean of the scores."""
    counted: Key
    """The number of documents in its denominator."""
    unscored: Sequence[Key] = ()
    """The numbers of other documents, such as those with an error, a refusal or a time-out."""


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """Several runs of a scorer that draws random numbers: the mean of their values, and a spread or an error.

    >>> Repeated(summary=print, value="mean")
    Traceback (most recent call last):
      ...
    TypeError: value='mean' stands alone; expected one of spread=... and error=...
    """

    summary: Callable[[int, int, Any, Any], Any]
    """``summary(seed, runs, responses, documents)`` returns the numbers of so many runs, by name."""
    value: Key
    """The mean of the values of the runs."""
    spread: Key = None
    """The standard deviation of the value of a run."""
    error: Key = None
    """The standard error of the mean of the runs."""

    def __post_init__(self) -> None:
        if not callable(self.summary):
            raise TypeError(
                f"summary={safe_text(self.summary)}; expected a function of a seed, runs, responses, documents"
            )
        if self.value is None:
            raise TypeError("value=None; expected the name of the mean of the runs")
        if self.spread is None and self.error is None:
            raise TypeError(f"value={self.value!r} stands alone; expected one of spread=... and error=...")
        if self.spread is not None and self.error is not None:
            raise TypeError(f"spread={self.spread!r} and error={self.error!r}; expected one of them")


Formula = Callable[[Sequence[float], int], float]
"""``formula(tries, k)`` returns the score of the tries; NaN where it has none."""


def pass_at(tries: Sequence[float], k: int) -> float:
    """Return the probability that one of ``k`` tries, drawn without replacement, is right: 1 - C(n-c, k) / C(n, k).

    The formula is that of Chen et al., 2021 (arXiv 2107.03374). It has no value for fewer than ``k`` tries.

    >>> pass_at([0.0, 1.0, 0.0, 0.0], 2)
    0.5
    """
    n, right = len(tries), sum(score >= 1 for score in tries)
    return math.nan if n < k else 1 - math.comb(n - right, k) / math.comb(n, k)


def pass_hat(tries: Sequence[float], k: int) -> float:
    """Return the probability that all of ``k`` tries are right: C(c, k) / C(n, k).

    The formula is that of Yao et al., 2024 (arXiv 2406.12045).
    """
    n, right = len(tries), sum(score >= 1 for score in tries)
    return math.nan if n < k else math.comb(right, k) / math.comb(n, k)


def _mode(tries: Sequence[float], _: int) -> float:
    modes = multimode(tries)
    return modes[0] if len(modes) == 1 else math.nan


FORMULAS: Mapping[str, Formula] = {
    "mean": lambda tries, _: fmean(tries),
    "median": lambda tries, _: median(tries),
    "max": lambda tries, _: max(tries),
    "min": lambda tries, _: min(tries),
    "mode": _mode,
    "at least": lambda tries, k: float(sum(score >= 1 for score in tries) >= k),
    "pass@k": pass_at,
    "pass^k": pass_hat,
}
"""Exact values by name; a try of 1 or more is right."""
_WITH_K = ("at least", "pass@k", "pass^k")


@dataclass(frozen=True, kw_only=True)
class Reducer:
    """A function that makes one score of the scores of several tries, and what it computes.

    >>> Reducer(reduce=max, exact="maximum")
    Traceback (most recent call last):
      ...
    TypeError: exact='maximum'; expected one of mean, median, max, min, mode, at least, pass@k, pass^k
    """

    reduce: Callable[[Sequence[float]], Any]
    """``reduce(tries)`` returns the score of the tries, of which each is a number."""
    exact: str = ""
    """Name of what it computes, of `FORMULAS`; empty for anything else."""
    k: int = 0
    """The number of tries that it is about, for ``at least``, ``pass@k`` and ``pass^k``."""

    def __post_init__(self) -> None:
        if not callable(self.reduce):
            raise TypeError(f"reduce={safe_text(self.reduce)}; expected a function of a list of scores")
        if self.exact and self.exact not in FORMULAS:
            near = nearest(str(self.exact), FORMULAS, cutoff=0.7)
            raise TypeError(f"exact={self.exact!r}; expected one of {', '.join(FORMULAS)}{near}")
        if (self.k > 0) != (self.exact in _WITH_K):
            raise TypeError(
                f"exact={self.exact!r} with k={self.k!r}; expected k of at least 1 for {', '.join(_WITH_K)}"
            )

    def value(self, tries: Sequence[float]) -> float:
        """Return the exact value of tries; NaN where there is none."""
        return FORMULAS[self.exact](tries, self.k) if self.exact and tries else math.nan
