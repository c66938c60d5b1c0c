"""Hostile targets: the cell reports what they did, and the next cell is not affected."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import pytest
import torch

import pytest_evalcheck as ec
from fixtures.gallery import hostile
from fixtures.gallery.decoders_correct import Generating
from fixtures.gallery.hostile import HOSTILE, Hostile
from fixtures.gallery.hostile_decoders import HOSTILE_DECODERS
from fixtures.gallery.hostile_loops import HOSTILE_LOOPS
from fixtures.gallery.hostile_scorers import HOSTILE_SCORERS
from fixtures.gallery.hostile_wrappers import HOSTILE_WRAPPERS, prints
from fixtures.gallery.loops_correct import Complete
from fixtures.gallery.metrics_plain import running_sum
from fixtures.gallery.scorers_correct import Numbers
from fixtures.gallery.table import target
from fixtures.gallery.wrappers_correct import ImageClassifier
from pytest_evalcheck.engine.target_errors import TARGET_ERROR
from pytest_evalcheck.reports.failure_text import format_failure
from pytest_evalcheck.testing import Project

ROOT = Path(__file__).resolve().parents[2]
each = pytest.mark.parametrize(
    "specimen",
    [*HOSTILE, *HOSTILE_WRAPPERS, *HOSTILE_SCORERS, *HOSTILE_DECODERS, *HOSTILE_LOOPS],
    ids=lambda specimen: f"{specimen.target.kind}-{specimen.target.name}",
)
CORRECT = {
    "decoder": target(Generating),
    "loop": target(Complete),
    "metric": running_sum,
    "scorer": target(Numbers),
    "wrapper": target(ImageClassifier),
}


def surroundings() -> dict[str, Any]:
    return {
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "grad mode": torch.is_grad_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
        "random numbers": torch.get_rng_state().tolist(),
        "environment": dict(os.environ),
        "folder": Path.cwd(),
    }


@each
@pytest.mark.slow(every=3)
def test_the_cell_reports_what_the_target_did(specimen: Hostile) -> None:
    (cell,) = ec.run(specimen.target, select=specimen.check).cells
    # What shows in an example call already is a target that is misdescribed; what hangs is incomplete.
    assert cell.outcome == ("incomplete" if specimen.cause == "timeout" else "failed"), format_failure(cell)
    assert cell.cause in (specimen.cause, TARGET_ERROR), format_failure(cell)
    assert specimen.says in cell.reason
    if specimen.cause.startswith("leak: "):
        assert specimen.cause.removeprefix("leak: ") in format_failure(cell)


@each
@pytest.mark.slow(every=3)
def test_the_next_cell_starts_clean(specimen: Hostile) -> None:
    before = surroundings()
    ec.run(specimen.target, select=specimen.check)
    assert surroundings() == before
    report = ec.run(CORRECT[specimen.target.kind], select=specimen.check)
    assert report.count("passed") == 1, format_failure(report.cells[0])


def test_a_cause_that_checks_share_is_reported_once(project: Project) -> None:
    project.write("from fixtures.gallery.hostile import leaks_a_seed")
    result = project.run("--evalcheck-select=EC201,EC202,EC205", code=1)
    result.shows("3 checks: 3 failed of 1 cause", "compute_is_idempotent: the same cause: leak: the torch seed")
    failures = result.text.split("short test summary")[0]  # which repeats the first line of each, whole under CI
    assert failures.count("EC201 splitting_a_stream") == 1


def test_a_value_that_is_different_each_time_passes_no_check() -> None:
    report = ec.run(hostile.answers_differently_each_time, select="EC201,EC205,EC208")
    assert [cell.outcome for cell in report.cells] == ["failed"] * 3


def test_a_failure_that_is_not_repeatable_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile, "made_before", itertools.count())
    (cell,) = ec.run(hostile.is_wrong_once, select="EC201").cells
    assert cell.outcome == "failed"
    assert "the target is not deterministic" in format_failure(cell)


def test_output_of_a_wrapper_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert not ec.run(prints).of("failed")
    assert "50%" in capsys.readouterr().err


def test_a_process_that_dies_takes_only_its_cell(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    project.write(
        """
        from fixtures.gallery.hostile import kills_its_process
        from fixtures.gallery.metrics_plain import running_sum
        """
    )
    result = project.run("--evalcheck-select=EC201", code=1)
    result.shows(
        "the process of the check died", "exit code 7, before the check had ended", "2 checks: 1 passed, 1 failed"
    )


@pytest.mark.slow
def test_hostile_targets_leave_the_others_alone(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    names = [s.target.name for s in HOSTILE if s.check == "EC201"]
    project.write(
        f"""
        from fixtures.gallery.hostile import {", ".join(names)}
        from fixtures.gallery.metrics_plain import running_sum
        """
    )
    # In a process of its own: one of them makes torch import what cannot be imported twice.
    result = project.spawn("--evalcheck", "--evalcheck-select=EC201", code=1)
    hanging = [s for s in HOSTILE if s.check == "EC201" and s.cause == "timeout"]
    result.shows(f"{len(names) + 1} checks: 1 passed, {len(names) - len(hanging)} failed", f"{len(hanging)} incomplete")


class PanicException(BaseException):
    """Stand-in for the exception that PyO3 raises when an extension written in Rust panics."""

    __module__ = "pyo3_runtime"


@pytest.mark.parametrize(
    ("error", "outcome", "shown"),
    [(PanicException, "failed", "PanicException in "), (KeyboardInterrupt, None, ""), (ValueError, "passed", "")],
)
def test_a_panic_of_an_extension_is_an_error_that_says_nothing_about_the_data(
    error: type[BaseException], outcome: str | None, shown: str
) -> None:
    def mean_of_several(preds: Any, target: Any) -> float:
        if len(preds) == 1:
            raise error("index out of bounds: the len is 1 but the index is 1")
        return float((preds - target).abs().mean())

    @ec.metric(inputs=ec.strategies.regression())
    def metric() -> Any:
        return mean_of_several

    if outcome is None:
        with pytest.raises(KeyboardInterrupt):
            ec.run(metric, select="EC222", effort="quick")
        return
    (cell,) = ec.run(metric, select="EC222", effort="quick").cells
    assert cell.outcome == outcome, cell.reason
    assert shown in cell.signature
