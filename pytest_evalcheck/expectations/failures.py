"""How a check says what it expects, and the failure that it raises.

A `CheckFailure` reads well without any rewriting of asserts: it carries what was looked at, the expected and the
actual value. What `expect` compares is also counted, so that a check which compared nothing is never green.
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
    """A broken promise."""

    fault = False
    """Whether the promise could not even be tried; a known failure never covers that."""

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


class NotApplicable(unittest.SkipTest):
    """The target does not offer what the check needs. Hypothesis lets it through at once."""


class NotCheckable(NotApplicable):
    """Nothing can be said on this device: the simulation does not reach so far. No entry is stale for that."""


@dataclass
class ComparisonStats:
    """What the cases of one cell have shown so far."""

    tolerance: Tolerance
    compared: int = 0
    """Comparisons in which at least one side was a value."""
    refused: int = 0
    """Comparisons of nothing but errors, which alone prove nothing."""
    last_refusal: str = ""
    inconclusive: str = ""
    """Why a case said nothing about the promise."""
    seconds: float = 0.0
    """How long variants may be measured in this cell; 0 where nothing is to be."""
    variants: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By name what variants cost, once that was measured."""


_evidence: contextvars.ContextVar[ComparisonStats | None] = contextvars.ContextVar("evidence", default=None)


@contextmanager
def collecting(evidence: ComparisonStats) -> Iterator[ComparisonStats]:
    """Count what is expected within, and use the tolerance of this cell."""
    token = _evidence.set(evidence)
    try:
        yield evidence
    finally:
        _evidence.reset(token)


def current_stats() -> ComparisonStats | None:
    """What is gathered about this cell; None outside of one."""
    return _evidence.get()


def refused(error: Raised) -> None:
    """Say that a case met nothing but a refusal, which alone proves nothing."""
    evidence = _evidence.get()
    if evidence is not None:
        evidence.refused += 1
        evidence.last_refusal = str(error)


def inconclusive(why: str) -> None:
    """Say that a case has nothing to show; a cell of nothing else is not applicable, never green."""
    evidence = _evidence.get()
    if evidence is not None:
        evidence.inconclusive = why


_ROOM = 120
"""Results that take more characters are not shown whole."""


@dataclass(frozen=True)
class expect:  # noqa: N801 - reads as a verb: expect(value).equals(other)
    """What a check holds a value against.

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
        """Hold within the tolerance of the cell; two errors of one type are equal but prove nothing."""
        evidence = _evidence.get()
        if evidence is not None:
            if isinstance(self.actual, Raised) and isinstance(expected, Raised):
                evidence.refused += 1
                evidence.last_refusal = str(self.actual)
            else:
                evidence.compared += 1
        tolerance = tolerance or (evidence.tolerance if evidence else Tolerance())
        found = difference(self.actual, expected, tolerance)
        if found is None:
            return
        shown, wanted, line = show(self.actual), show(expected), str(found)
        if found.path and max(len(shown), len(wanted)) > _ROOM:  # the place that differs says more than a cut-off whole
            more = f"and {found.more} more numbers" if found.more else ""
            detail = "\n".join(text for text in (more, detail) if text)
            raise CheckFailure(f"{about}, at {found.path}", expected=found.expected, actual=found.actual, detail=detail)
        if len(line) > 200 or line.startswith("at ") or "shape" in line:
            detail = f"{line[:300]}\n{detail}".strip()
        raise CheckFailure(about, expected=wanted, actual=shown, detail=detail)

    def differs_from(self, other: Any, *, about: str) -> None:
        """Hold that the value is another one."""
        self.holds(difference(self.actual, other, Tolerance()) is not None, about=about)

    def holds(self, condition: bool, *, about: str, detail: str = "") -> None:
        """Hold a condition that was worked out about the value."""
        evidence = _evidence.get()
        if evidence is not None:
            evidence.compared += 1
        if not condition:
            raise CheckFailure(about, detail=detail or f"seen: {show(self.actual)}")
