"""Severities of failures: another number, an error, a cost; what fails a run, and what is judged first."""

from __future__ import annotations

from typing import Any

import pytest

import pytest_evalcheck as ec
from fixtures.gallery.metrics_data import joins_its_sums
from fixtures.gallery.table import SPECIMENS
from pytest_evalcheck import strategies as es
from pytest_evalcheck.kinds.common.check import CheckError, check
from pytest_evalcheck.reports.failure_text import format_failure

INPUTS = es.binary(of="labels")


class Share:
    def __init__(self) -> None:
        self.right, self.count, self.batches = 0.0, 0, 0

    def update(self, preds: Any, target: Any) -> None:
        self.right += float((preds == target).sum())
        self.count += len(target)
        self.batches += 1

    def compute(self) -> Any:
        return self.right / self.count


def cell_of(made: type, select: str = "EC201") -> ec.Cell:
    (cell,) = ec.run(ec.metric(inputs=INPUTS)(lambda: made()), select=select, effort="quick").cells
    return cell


@pytest.mark.parametrize(("code", "severity"), [("EC201", "number"), ("EC222", "error"), ("EC001", "error")])
def test_a_failure_has_the_severity_of_its_check(code: str, severity: str) -> None:
    bug = next(specimen.bug for specimen in SPECIMENS if specimen.code == code)
    (cell,) = ec.run(bug, select=code, effort="quick").cells
    assert (cell.outcome, cell.severity) == ("failed", severity)
    assert ("severity     error" in format_failure(cell)) == (severity == "error")


def test_memory_is_a_cost() -> None:
    (cell,) = ec.run(joins_its_sums, "cpu", select="EC229", effort="quick").cells
    assert (cell.outcome, cell.severity) == ("failed", "cost")


def test_an_error_in_a_check_of_numbers_is_an_error() -> None:
    class Fails(Share):
        def compute(self) -> Any:
            if self.batches > 1:
                raise RuntimeError("several batches")
            return super().compute()

    assert cell_of(Fails).severity == "error"


def test_a_severity_that_does_not_exist_is_refused() -> None:
    with pytest.raises(CheckError, match="severity='grave' of ZZ101; expected one of number, error, cost"):
        check("ZZ101", severity="grave")  # type: ignore[arg-type]


TARGET = """
from fixtures.gallery.metrics_data import joins_its_sums
"""


@pytest.mark.parametrize(
    ("arguments", "code"), [((), 1), (("--evalcheck-fail-on=cost",), 1), (("--evalcheck-fail-on=error",), 0)]
)
@pytest.mark.slow(every=3)
def test_a_run_fails_on_what_it_is_asked_to(evalcheck_project: Any, arguments: tuple[str, ...], code: int) -> None:
    evalcheck_project.write(TARGET)
    result = evalcheck_project.spawn("--evalcheck", "--evalcheck-select=EC229,EC201", *arguments, code=code)
    assert ("cost, which does not fail this run" in result.text) == (code == 0)


def test_a_severity_of_the_command_line_that_does_not_exist_is_refused(evalcheck_project: Any) -> None:
    evalcheck_project.write(TARGET)
    result = evalcheck_project.spawn("--evalcheck", "--evalcheck-fail-on=numbers", code=4)
    assert "--evalcheck-fail-on=numbers: expected one of number, error, cost; did you mean 'number'?" in result.errors


class MeanOfMeans(Share):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[float] = []

    def update(self, preds: Any, target: Any) -> None:
        super().update(preds, target)
        self.parts.append(float((preds == target).double().mean()))

    def compute(self) -> Any:
        return sum(self.parts) / self.batches


class FailsBehindMeans(MeanOfMeans):
    """Two batches give another number, three end in an error."""

    def compute(self) -> Any:
        return super().compute() / (self.batches < 3)


class FailsOnThree(Share):
    def compute(self) -> Any:
        return super().compute() / (self.batches < 3)


@pytest.mark.parametrize("made", [FailsBehindMeans, FailsOnThree])
def test_an_error_is_reported_before_a_number_that_another_case_shows(made: type) -> None:
    cell = cell_of(made)
    assert cell.failure is not None
    assert cell.failure.origin.startswith("ZeroDivisionError at ")
    assert "ZeroDivisionError" in cell.signature
    assert cell.failure.case is not None
    assert len(cell.failure.case["batches"]) == 3
    beside = "Other cases show something else: the value of the stream" in cell.failure.detail
    assert (beside, cell.severity) == ((True, "number") if made is FailsBehindMeans else (False, "error"))
    (again,) = ec.run(
        ec.metric(inputs=INPUTS)(lambda: made()), replay=cell.reproduce.partition("replay='")[2].rstrip("')")
    ).cells
    assert again.signature == cell.signature


def test_a_number_beside_which_nothing_ends_in_an_error_is_the_failure() -> None:
    cell = cell_of(MeanOfMeans)
    assert (cell.severity, cell.signature) == ("number", "EC201: split: another number")
    assert cell.failure is not None
    assert "Other cases" not in cell.failure.detail
    assert cell_of(Share).outcome == "passed"
