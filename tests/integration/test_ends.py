"""Ends of runs: few lines, the short test summary points at targets, and -v shows the rest."""

from __future__ import annotations

import re
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from target_files import BROKEN, CORRECT, HEADER

from pytest_evalcheck.integration.screen.short_summary import ShortSummary
from pytest_evalcheck.reports.results import Cell
from pytest_evalcheck.testing import Project


@pytest.fixture
def project(evalcheck_project: Project) -> Project:
    evalcheck_project.header = HEADER
    return evalcheck_project


def test_the_short_summary_points_at_targets_and_folds_reasons(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    project.write(CORRECT, CORRECT.replace("def mean", "def median"), BROKEN)
    result = project.run("-ra", "--evalcheck-select=EC201,EC203,EC220", "--junit-xml=junit.xml", code=1)
    line = HEADER.count("\n") + 2
    reason = "not applicable: the metric offers no way to merge"
    result.shows(
        f"SKIPPED [6] evalcheck_example.py:{line}: {reason} (EC203 EC220: mean, median, mean_of_means)\n",
        "FAILED evalcheck_example.py::mean_of_means::splitting_a_stream_does_not_change_the_value[cpu] - EC201: The value "
        "does not depend on how the stream is split into batches.",
        "1 failed, 2 passed, 6 skipped",
    )
    result.lacks("session.py", "Failed: EC201")
    skips = ElementTree.parse(project.path / "junit.xml").iter("skipped")
    assert {re.sub(r".*/", "", str(skip.text)) for skip in skips} == {
        f"evalcheck_example.py:{line + number}: {reason}" for number in (0, 4, 8)
    }


@pytest.mark.parametrize(("given", "listed"), [("fE", 2), ("f", 13)])
def test_of_many_failed_cells_the_first_of_each_cause_is_listed(given: str, listed: int) -> None:
    """Runs without -r: the counts of pytest's last line include all checks."""
    common = {"kind": "metric", "device": "cpu", "outcome": "failed"}
    cells = {
        f"a.py::m::{n}": Cell(target="a.py::m", check=f"c{n}", code=f"EC2{n:02}", cause="leak", **common)
        for n in range(12)
    }
    cells["a.py::o::0"] = Cell(target="a.py::o", check="c0", code="EC200", reason="another one", **common)
    reports = [SimpleNamespace(nodeid=nodeid, longrepr=None) for nodeid in cells]
    option = SimpleNamespace(verbose=0, reportchars=given, no_summary=False)
    summary = ShortSummary(SimpleNamespace(option=option), cells)
    reporter = SimpleNamespace(stats={"failed": reports}, write_line=[].append)
    hook = summary.pytest_terminal_summary(reporter)
    next(hook)
    summary.pytest_before_short_summary(reporter)
    assert len(reporter.stats["failed"]) == listed
    assert reporter.stats["failed"][-1].nodeid == "a.py::o::0"
    with pytest.raises(StopIteration):
        next(hook)
    assert reporter.stats["failed"] is reports
    said = ["and 11 failed checks more of these causes, with -v"] if listed == 2 else []
    assert reporter.write_line.__self__ == said
