"""Scorers that ask a judge: what they declare, and judges that never answer."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import pytest

import pytest_evalcheck as ec
from fixtures.gallery.scorers_correct import DrawnAgain, Judged


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"verdicts": "GRADE: C"}, "expected at least two different answers"),
        ({"verdicts": ("A", "A")}, "expected at least two different answers"),
        ({"verdicts": ("A", "B"), "takes": "any"}, "takes='any'; expected 'first', 'last' or ''"),
    ],
)
def test_a_judging_that_is_none_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        ec.Judging(score=print, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"value": "mean"}, "value='mean' stands alone; expected one of spread=... and error=..."),
        ({"value": "mean", "spread": "a", "error": "b"}, "spread='a' and error='b'; expected one of them"),
        ({"value": None, "spread": "std"}, "expected the name of the mean of the runs"),
        ({"summary": 3, "value": "mean", "spread": "std"}, "summary=3; expected a function of a seed, runs"),
    ],
)
def test_repeated_runs_without_a_spread_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        ec.Repeated(**{"summary": print, **fields})


def run(made: Judged | DrawnAgain, code: str, **keywords: Any) -> ec.Cell:
    def factory() -> ec.Scorer:
        return made.record()

    return ec.run(ec.scorer(inputs=made.inputs)(factory), "cpu", select=code, effort="quick", **keywords).cells[0]


class Documented(Judged):
    """The last of several grades counts, as documented."""

    def grade(self, answer: str) -> float | None:
        return super().grade(answer[answer.rfind("GRADE") :]) if "GRADE: " in answer else None

    def record(self) -> ec.Scorer:
        return ec.Scorer(score=self.score, judging=ec.Judging(score=self.judged, verdicts=self.VERDICTS, takes="last"))

    VERDICTS = ("GRADE: C", "GRADE: I")


class First(Documented):
    """The first one counts."""

    def grade(self, answer: str) -> float | None:
        return Judged.grade(self, answer[: len("GRADE: C")]) if "GRADE: " in answer else None


def test_the_verdict_that_is_documented_counts_of_two() -> None:
    assert run(Documented(), "EC420").outcome == "passed"
    assert run(First(), "EC420").signature == "EC420: two-verdicts: another number"


class NeverAnswers(Judged):
    """A judge that is asked again until its answer can be parsed."""

    def ask(self, judge: Any, document: Any, responses: Any) -> str:
        while self.grade(answer := super().ask(judge, document, responses)) is None:
            time.sleep(0.01)
        return answer


def test_a_judge_that_never_answers_ends_at_the_limit() -> None:
    cell = run(NeverAnswers(), "EC420", timeout=2)
    assert cell.outcome == "incomplete"
    assert "0 of 4 cases were tried within 2 seconds" in cell.reason


class WithAnError(DrawnAgain):
    """The error of the mean beside it, where `spread` is the standard deviation of a run."""

    def record(self) -> ec.Scorer:
        repeated = ec.Repeated(summary=self.summary, value="mean", error="std")
        return dataclasses.replace(super().record(), repeated=repeated)


class ErrorOfTheMean(WithAnError):
    """The error is one."""

    def spread(self, values: Sequence[float]) -> float:
        return super().spread(values) / len(values) ** 0.5


def test_an_error_of_the_mean_of_runs_is_one() -> None:
    assert run(ErrorOfTheMean(), "EC423").outcome == "passed"
    cell = run(WithAnError(), "EC423")
    assert cell.signature == "EC423: spread"
    assert cell.failure is not None
    assert "pairs of runs report a standard error of" in cell.failure.about


class NoSpreadOfTwo(DrawnAgain):
    """Two runs have no spread, which NaN says."""

    def spread(self, values: Sequence[float]) -> float:
        return float("nan")


def test_runs_without_a_spread_are_not_judged() -> None:
    cell = run(NoSpreadOfTwo(), "EC423")
    assert cell.outcome == "not applicable"
    assert "some runs report no mean or no spread" in cell.reason
