"""A metric function that raises an error, and what became of that error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from pytest_evalcheck.errors import safe_text
from pytest_evalcheck.expectations.comparison import Raised, show

_ERRORS: Mapping[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        ValueError,
        TypeError,
        KeyError,
        StopIteration,
        AttributeError,
        IndexError,
        NotImplementedError,
        ZeroDivisionError,
    )
}
ERRORS = tuple(_ERRORS)
"""Errors that metric functions raise: code around them may take some for an error of its own, and hide them."""
_FEW = 3
_TEXT = "this metric cannot score what it was given"


def some_errors() -> st.SearchStrategy[list[str]]:
    """A few of `ERRORS`, none of them twice."""
    return st.lists(st.sampled_from(ERRORS), min_size=1, max_size=_FEW, unique=True)


class FailingMetric:
    """A function that raises an error of a kind, every time.

    Its parameters are those of the first call: a call with others gets the TypeError that Python raises for them.
    """

    __name__ = "failing_metric"

    def __init__(self, kind: str) -> None:
        self._kind, self._parameters = kind, ""

    @property
    def called(self) -> bool:
        """True if it was called."""
        return bool(self._parameters)

    def __call__(self, *given: Any, **named: Any) -> float:
        parameters = f"{len(given)} arguments{''.join(f', {name}=' for name in sorted(named))}"
        self._parameters = self._parameters or parameters
        if parameters != self._parameters:
            raise TypeError(f"failing_metric() takes {self._parameters}; it was called with {parameters}")
        raise _ERRORS[self._kind](_TEXT)

    def problem(self, result: Any) -> str:
        """Return what is wrong with the result of an evaluation in which it was called, or ''.

        The error is itself where its type and its text are the same, or where another one names it as its cause, as
        ``raise ... from error`` does; one that was raised while it was handled has it as its context only.
        """
        if not isinstance(result, Raised):
            return f"the evaluation went on and gave {show(result)[:120]}"
        error: BaseException | None = result.error
        while error is not None and not self._is_own(error):
            error = error.__cause__
        if error is not None:
            return ""
        return f"what came out is {type(result.error).__name__}: {safe_text(result.error, str, most=120)}"

    def _is_own(self, error: BaseException) -> bool:
        return type(error) is _ERRORS[self._kind] and _TEXT in safe_text(error, str, most=2000)
