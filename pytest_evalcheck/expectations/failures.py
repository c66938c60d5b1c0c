"""How a check states what it expects, and the failure that it raises.

A `CheckFailure` needs no rewriting of asserts: it carries what was compared, the expected and the actual value.
What `expect` compares is also counted, so that a check which compared nothing is never green.
"""

from __future__ import annotations

import contextvars
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised, Tolerance, difference, show


class CheckFailure(AssertionError):
    """A promise that is not kept."""

    untestable = False
    """Whether the promise could not be tried; a known failure never covers that."""

    def __init__(self, about: str, *, expected: str = "", actual: str = "", detail: str = "", cause: str = "") -> None:
        self.about, self.expected, self.actual, self.detail, self.cause = about, expected, actual, detail, cause
        super().__init__(about)

    def __str__(self) -> str:
        lines = [self.about]
        if self.expected or self.actual:
            lines += [f"    expected  {self.expected}", f"    actual    {self.actual}"]
        if self.detail:
            lines += [f"    {line}" for line in self.detail.splitlines()]
        return "\n".join(lines)

    @property
    def headline(self) -> str:
        """One line for tables."""
        values = f": {self.actual}, expected {self.expected}" if self.expected or self.actual else ""
        return (self.about + values).splitlines()[0]


class TargetError(CheckFailure):
    """The target could not be built or used at all. A known failure never covers it."""

    untestable = True


class NotApplicable(unittest.SkipTest):
    """The target does not offer what the check needs. Hypothesis lets it through at once."""


class NotCheckable(NotApplicable):
    """The simulated device cannot do what the code needs, so that nothing is known. No entry is stale for that."""


@dataclass
class ComparisonStats:
    """What the cases of one cell have compared so far."""

    tolerance: Tolerance
    compared: int = 0
    """Comparisons in which at least one side was a value."""
    refused: int = 0
    """Comparisons of an error with an error, which alone prove nothing."""
    last_refusal: str = ""
    inconclusive: str = ""
    """Why a case showed nothing about the promise."""
    seconds: float = 0.0
    """How long variants may be measured in this cell; 0 for not at all."""
    variants: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What variants cost, by name, once it was measured."""


_stats: contextvars.ContextVar[ComparisonStats | None] = contextvars.ContextVar("comparison_stats", default=None)


@contextmanager
def counting(stats: ComparisonStats) -> Iterator[ComparisonStats]:
    """Count the comparisons of this block, and use the tolerance of this cell."""
    token = _stats.set(stats)
    try:
        yield stats
    finally:
        _stats.reset(token)


def current_stats() -> ComparisonStats | None:
    """The statistics of the current cell; None outside of one."""
    return _stats.get()


def refused(error: Raised) -> None:
    """Report that a case was refused, which alone proves nothing."""
    stats = _stats.get()
    if stats is not None:
        stats.refused += 1
        stats.last_refusal = str(error)


def inconclusive(why: str) -> None:
    """Report that a case shows nothing; a cell of such cases alone is not applicable, never green."""
    stats = _stats.get()
    if stats is not None:
        stats.inconclusive = why


_LONGEST_RESULT = 120
"""Results that take more characters are not shown whole."""


@dataclass(frozen=True)
class expect:  # noqa: N801 - reads as a verb: expect(value).equals(other)
    """Compare a value with what a check expects.

    >>> expect(0.5).equals(0.5, about="the mean")
    >>> expect(0.5).equals(0.75, about="the mean")
    Traceback (most recent call last):
      ...
    pytest_evalcheck.expectations.failures.CheckFailure: the mean
        expected  0.75
        actual    0.5
    """

    actual: Any

    def equals(self, expected: Any, *, about: str, tolerance: Tolerance | None = None, detail: str = "") -> None:
        """Compare within the tolerance of the cell; two errors of one type are equal but prove nothing."""
        stats = _stats.get()
        if stats is not None:
            if isinstance(self.actual, Raised) and isinstance(expected, Raised):
                refused(self.actual)
            else:
                stats.compared += 1
        tolerance = tolerance or (stats.tolerance if stats else Tolerance())
        found = difference(self.actual, expected, tolerance)
        if found is None:
            return
        shown, wanted, line = show(self.actual), show(expected), str(found)
        # The index that differs says more than a whole that is cut off.
        if found.path and max(len(shown), len(wanted)) > _LONGEST_RESULT:
            more = f"and {found.more} more numbers" if found.more else ""
            detail = "\n".join(text for text in (more, detail) if text)
            raise CheckFailure(f"{about}, at {found.path}", expected=found.expected, actual=found.actual, detail=detail)
        if len(line) > 200 or line.startswith("at ") or "shape" in line:
            detail = f"{line[:300]}\n{detail}".strip()
        raise CheckFailure(about, expected=wanted, actual=shown, detail=detail)

    def differs_from(self, other: Any, *, about: str) -> None:
        """Require another value."""
        self.holds(difference(self.actual, other, Tolerance()) is not None, about=about)

    def holds(self, condition: bool, *, about: str, detail: str = "") -> None:
        """Require a condition that was computed from the value."""
        stats = _stats.get()
        if stats is not None:
            stats.compared += 1
        if not condition:
            raise CheckFailure(about, detail=detail or f"seen: {show(self.actual)}")
