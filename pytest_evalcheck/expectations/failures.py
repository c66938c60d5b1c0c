"""Statements of what a check expects, and the failure that it raises.

A `CheckFailure` needs no rewriting of asserts: it carries what was compared, the expected and the actual value.
What `expect` compares is also counted, so that a check which compared nothing is never green.
"""

from __future__ import annotations

import contextvars
import sys
import unittest
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pytest_evalcheck.expectations.call_log import note_failure
from pytest_evalcheck.expectations.comparison import (
    Difference,
    Raised,
    Tolerance,
    difference,
    differences,
    kind_of_value,
    origin_of,
    show,
)
from pytest_evalcheck.expectations.ids import calling_frame, id_from_order, line_of, require_id
from pytest_evalcheck.reports.failure_text import format_comparison


@dataclass(frozen=True)
class Compared:
    """The values of a comparison that failed, and how a script of the failure compares them again."""

    form: str
    actual: Any
    expected: Any
    tolerance: Tolerance


FORMS = ("same", "different", "error", "names", "visible", "warned", "unchanged")
"""Forms of a comparison, in this order: both values are the same; they differ, or one is an error; the actual value is
an error; it is an error whose text has a word; it is NaN, infinite, an error or warns of them; any of these or any
warning; an input is as it was when it was given."""


class CheckFailure(AssertionError):
    """A property that fails."""

    untestable = False
    """True where the property could not be tried; a known failure never covers that."""

    def __init__(
        self,
        about: str,
        *,
        id: str = "",
        expected: str = "",
        actual: str = "",
        detail: str = "",
        cause: str = "",
        contrast: str = "",
        origin: str = "",
    ) -> None:
        self.about, self.expected, self.actual, self.detail, self.cause = about, expected, actual, detail, cause
        self.id = require_id(id)
        """The id of the comparison, a few words that stay when the texts change: ``after-write``."""
        self.contrast = contrast
        """The kinds of values that differ, such as ``another number`` or ``NaN``."""
        self.origin = origin
        """The origin of the error that the failure is about; empty for values that differ."""
        self.compared: Compared | None = None
        super().__init__(about)

    def __str__(self) -> str:
        return format_comparison(self)

    @property
    def headline(self) -> str:
        """One line for tables."""
        actual = f": {self.actual}" if self.actual else ""
        expected = f", expected {self.expected}" if self.expected else ""
        return (self.about + actual + expected).splitlines()[0]


class TargetError(CheckFailure):
    """The target could not be built or used at all. A known failure never covers it."""

    untestable = True


class NotApplicable(unittest.SkipTest):
    """The target does not offer what the check needs. Hypothesis lets it through at once."""


class NotCheckable(NotApplicable):
    """The simulated device cannot do what the code needs, so that nothing is known. No entry is stale for that."""


class DeviceLost(NotCheckable):
    """A kernel of a real device failed an assertion: this process cannot use the device again."""


class NotImportable(NotCheckable):
    """The code under test cannot import what it needs, so that nothing is known."""


@dataclass
class ComparisonStats:
    """Counts of what the cases of one cell have compared so far."""

    tolerance: Tolerance
    compared: int = 0
    """Comparisons in which at least one side was a value."""
    refused: int = 0
    """Comparisons of an error with an error, which alone prove nothing."""
    last_refusal: str = ""
    last_origin: str = ""
    """The origin of the error of the last refusal."""
    inconclusive: str = ""
    """The reason why a case showed nothing about the property."""
    value: str = ""
    """The one value that the target gave in all cases; empty where there was none, or several."""
    varies: bool = False
    """True where the target gave different values."""
    not_offered: int = 0
    """Cases that need what the target does not offer; they do not count as tried."""
    seconds: float = 0.0
    """Time for measuring variants in this cell; 0 for none."""
    variants: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The measured cost of variants, by name."""
    should_pass_over: Callable[[CheckFailure], bool] | None = None
    """Return whether a failure is known, so that the check continues after it; None where every failure ends it."""
    known_seen: int = 0
    """The number of known failures in this case."""
    places: dict[str, str] = field(default_factory=dict)
    """The file and line of each comparison of a check of another distribution, by its id."""

    def see(self, value: Any) -> None:
        """Note a value of the target, so that one which never changes is noticed. NaN and None are no values."""
        if self.varies or isinstance(value, Raised):
            return
        text = show(value)
        if text in ("nan", "None"):
            return
        if self.value and text != self.value:
            self.varies, text = True, ""
        self.value = text


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


def note_value(value: Any) -> None:
    """Note a value that the target gave in a case, or the error; see `ComparisonStats.see`."""
    stats = _stats.get()
    if stats is not None:
        stats.see(value)


def compared() -> None:
    """Report that a case passed where there is no value to compare, such as an error that was asked for."""
    stats = _stats.get()
    if stats is not None:
        stats.compared += 1


def refused(error: Raised) -> None:
    """Report that a case was refused, which alone proves nothing."""
    stats = _stats.get()
    if stats is not None:
        stats.refused += 1
        stats.last_refusal, stats.last_origin = str(error), error.origin


def inconclusive(why: str) -> None:
    """Report that a case shows nothing; a cell of such cases alone is not applicable, never green."""
    stats = _stats.get()
    if stats is not None:
        stats.inconclusive = why


def not_offered(why: str) -> None:
    """Report that the target does not offer what this case needs; it is not counted, nor are its conditions required.

    A cell of such cases alone is not applicable. Where the target lacks what every case needs, raise `NotApplicable`.
    """
    stats = _stats.get()
    if stats is not None:
        stats.not_offered += 1
        stats.inconclusive = stats.inconclusive or why


def _id_here(given: str) -> str:
    """Return the id of the comparison that calls this, made from its order where none is given.

    Raises:
        TargetError: where another comparison of the check has it.
    """
    stats, frame = _stats.get(), calling_frame(sys._getframe(2))
    if stats is None or frame is None:
        return require_id(given)
    id, place = require_id(given) or id_from_order(frame), line_of(frame)
    if stats.places.setdefault(id, place) != place:
        raise TargetError(
            f"two comparisons of the check have the id {id!r}",
            actual=f"{stats.places[id]} and {place}",
            expected="an id for each",
            cause="check",
        )
    return id


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

    def equals(
        self,
        expected: Any,
        *,
        about: str,
        id: str = "",
        tolerance: Tolerance | None = None,
        detail: str = "",
    ) -> None:
        """Compare within the tolerance of the cell; two errors of one type are equal but prove nothing.

        ``id`` says in a few words what is compared, such as ``after-write``. It is a part of the signature, by which a
        failure is known again: no other comparison of the check has it, and it stays when ``about`` changes.
        """
        stats, id = _stats.get(), _id_here(id)
        if isinstance(expected, Raised) and expected.is_of_adapter and not isinstance(self.actual, Raised):
            inconclusive(f"nothing to compare with: {expected}")
            return
        if stats is not None:
            if isinstance(self.actual, Raised) and isinstance(expected, Raised):
                refused(self.actual)
            else:
                stats.compared += 1
        tolerance = tolerance or (stats.tolerance if stats else Tolerance())
        seen: Iterable[Difference] = differences(self.actual, expected, tolerance)
        if origin_of(self.actual) or origin_of(expected):
            seen = sorted(seen, key=lambda found: not found.origin)
        for found in seen:
            failure = self._failure(found, expected, about, detail)
            failure.id = id
            failure.contrast = f"{found.contrast} for {found.name!r}" if found.name else found.contrast
            failure.compared = Compared("same", self.actual, expected, tolerance)
            _report(failure)

    def _failure(self, found: Difference, expected: Any, about: str, detail: str) -> CheckFailure:
        shown, wanted, line = show(self.actual), show(expected), str(found)
        # The index that differs says more than a whole that is cut off.
        if found.path and max(len(shown), len(wanted)) > _LONGEST_RESULT:
            more = f"and {found.more} more numbers" if found.more else ""
            detail = "\n".join(text for text in (more, detail) if text)
            about = f"{about}, at {found.path}"
            return CheckFailure(about, expected=found.expected, actual=found.actual, detail=detail, origin=found.origin)
        if len(line) > 200 or line.startswith("at ") or "shape" in line:
            detail = f"{line[:300]}\n{detail}".strip()
        return CheckFailure(about, expected=wanted, actual=shown, detail=detail, origin=found.origin)

    def differs_from(self, other: Any, *, about: str, id: str = "") -> None:
        """Require another value."""
        differs = difference(self.actual, other, Tolerance()) is not None
        self.holds(differs, about=about, id=id, form="different", beside=other)

    def holds(
        self, condition: bool, *, about: str, id: str = "", detail: str = "", form: str = "", beside: Any = None
    ) -> None:
        """Require a condition that was computed from the value.

        ``form`` is one of `FORMS`: how a script of the failure judges the value, with ``beside`` as the other one.
        """
        stats, id = _stats.get(), _id_here(id)
        if stats is not None:
            stats.compared += 1
        if not condition:
            error = kind_of_value(self.actual) if isinstance(self.actual, Raised) else ""
            seen = detail or f"seen: {show(self.actual)}"
            failure = CheckFailure(about, detail=seen, contrast=error, origin=origin_of(self.actual))
            failure.id = id
            tolerance = stats.tolerance if stats else Tolerance()
            failure.compared = Compared(form, self.actual, beside, tolerance)
            _report(failure)


def _report(failure: CheckFailure) -> None:
    note_failure(failure)
    stats = _stats.get()
    if stats is None or stats.should_pass_over is None or not stats.should_pass_over(failure):
        raise failure
    stats.known_seen += 1
