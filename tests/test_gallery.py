"""The table of planted bugs: each is caught by its check and by no other, and its correct twin keeps every check."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import pytest

import pytest_evalcheck as ec
from docs import make_checks
from fixtures.gallery.table import CHECKS, SPECIMENS, Specimen
from pytest_evalcheck.engine.effort import EFFORTS
from pytest_evalcheck.engine.target_errors import TARGET_ERROR
from pytest_evalcheck.reports.failure_text import format_failure

CONSTRAINTS = (Path(__file__).parent.parent / "constraints.txt").read_text(encoding="utf-8")
PINNED = next(line.partition("==")[2] for line in CONSTRAINTS.splitlines() if line.startswith("hypothesis=="))
PAGES = list(make_checks.shown().values())
"""The bug of the page of each check."""
ALONE = [specimen for specimen in SPECIMENS if not specimen.apart]
TWINS = {specimen.twin.name: specimen.twin for specimen in SPECIMENS}
OF_PAGES = [specimen for specimen in ALONE if specimen in PAGES]
OTHERS = [specimen for specimen in ALONE if specimen not in PAGES]


@pytest.fixture(autouse=True)
def shrinking_does_not_end_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine the smallest case would be another one if shrinking ended by the clock.
    for name, effort in EFFORTS.items():
        monkeypatch.setitem(EFFORTS, name, replace(effort, shrink_seconds=240))


def cases(specimens: list[Specimen], *marks: pytest.MarkDecorator) -> list[Any]:
    return [pytest.param(s, id=f"{s.code}-{s.bug.name}", marks=marks) for s in specimens]


def samples_of(cell: ec.Cell) -> list[Any]:
    """The samples of the smallest input; none where it is a seed and the parameters of a distribution."""
    assert cell.failure is not None
    # All samples of a contrast are needed: some of each class.
    return list((cell.failure.case or {}).get("samples", []))


def broken(report: ec.Report) -> dict[str, str]:
    return {cell.code: f"{cell.reason} {cell.failure}" for cell in report.of("failed")}


def test_every_shipped_check_has_a_bug_that_it_alone_catches() -> None:
    assert {s.code for s in SPECIMENS if not s.breaks_too} == CHECKS.keys()


def tried(specimen: Specimen) -> Sequence[ec.Cell]:
    """The cells of its check; where the page of this check shows the bug, the page shows what they print."""
    if make_checks.shown()[specimen.code] is not specimen:
        return ec.run(specimen.bug, specimen.device, select=specimen.code, timeout=500).cells
    cells = make_checks.cells(specimen)
    if hypothesis.__version__ == PINNED:  # another release may shrink to another smallest input
        printed, written = make_checks.failure(cells), make_checks.written_failure(specimen.code)
        assert rounded(printed) == rounded(written), "run: python docs/make_checks.py"
    return cells


def rounded(text: str) -> str:
    # Another processor adds float32 numbers in another order.
    return re.sub(r"\d+\.\d{6,}", lambda number: f"{float(number[0]):.4g}", text)


@pytest.mark.parametrize("specimen", [*cases(OF_PAGES, pytest.mark.slow(every=2)), *cases(OTHERS, pytest.mark.slow)])
def test_a_bug_is_caught_by_its_check(specimen: Specimen) -> None:
    # What is about accelerators is tried on simulated ones, and may be wrong with one kind of them alone.
    cells = tried(specimen)
    cell = next((one for one in cells if one.outcome == "failed"), cells[0])
    assert cell.outcome == "failed", f"{cell.outcome} {cell.reason}"
    assert not cell.cause, f"the target could not be tried: {cell.reason}"
    assert [one.reason for one in cells if one.cause == TARGET_ERROR] == []
    assert len(samples_of(cell)) <= 4, cell.failure


@pytest.mark.parametrize("specimen", cases(ALONE))
@pytest.mark.slow(every=32)
def test_a_bug_is_caught_by_no_other_check(specimen: Specimen) -> None:
    others = ",".join([specimen.code, *specimen.breaks_too])
    report = ec.run(specimen.bug, specimen.devices, ignore=others, effort="quick")
    assert not broken(report)
    # Of a wrapper that is random in every call two promises are left, and images have no padding; what a scorer does
    # not offer (streams, caches; ranks, training, retries of a loop; other ways to call it) is not applicable.
    least = {"scorer": 2, "loop": 3}.get(specimen.bug.kind, 5)
    assert report.count("passed") >= min(least, len(report.cells) - 2)


@pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS.keys())
@pytest.mark.slow(every=10)
def test_a_correct_twin_keeps_every_promise(twin: ec.Target) -> None:
    # Greater effort, with other seeds, is for when a check, a strategy or a twin changes: benchmarks/gallery_seeds.py.
    report = ec.run(twin, "auto", effort="quick")
    assert not broken(report)
    kept = {cell.code for cell in report.of("passed")}
    assert {s.code for s in SPECIMENS if s.twin is twin and not s.apart} <= kept


@pytest.mark.parametrize("specimen", cases([s for s in SPECIMENS if s.apart]))
@pytest.mark.slow(every=5)
def test_processes_tell_a_bug_from_its_twin(specimen: Specimen) -> None:
    (bug,), (twin,) = tried(specimen), ec.run(specimen.twin, select=specimen.code).cells
    assert (bug.outcome, bug.cause, twin.outcome) == ("failed", "", "passed"), format_failure(bug) + format_failure(
        twin
    )
