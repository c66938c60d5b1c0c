from __future__ import annotations

import pytest
from hypothesis import given, settings
from report_samples import cell, reports, small, thorough

from pytest_evalcheck.reports.badge import as_json
from pytest_evalcheck.reports.results import Report
from pytest_evalcheck.reports.runs import Run, Shard

KEPT = [cell(), cell(code="EC203"), cell(code="EC210", outcome="known")]


@pytest.mark.parametrize(
    ("report", "message", "color"),
    [
        (Report(KEPT), "2 passed, 1 known", "brightgreen"),
        (Report([*KEPT, cell(code="EC204", outcome="not applicable")]), "2 passed, 1 known", "brightgreen"),
        (Report([*KEPT, cell(code="EC204", outcome="incomplete")]), "1 incomplete, 2 passed, 1 known", "red"),
        (Report([*KEPT, cell(code="EC204", outcome="not run")]), "2 passed, 1 known, 1 not run", "red"),
        (Report([*KEPT, cell(code="EC204", outcome="not run", missing=("cuda",))], optional=["cuda"]), "2 passed, 1 known", "brightgreen"),
        (small(), "3 failed, 5 passed, 3 known, 2 not run", "red"),
        (Report(KEPT, problems=["a.py cannot be read"]), "not ok, 2 passed, 1 known", "red"),
        (Report(), "not ok", "red"),
        (Report(unchanged="12 checks unchanged"), "part: nothing changed", "yellow"),
        (Report(KEPT, narrowed=True), "part: 2 passed, 1 known", "yellow"),
        (Report(KEPT, run=Run(chosen=("evalcheck_lm.py",))), "part: 2 passed, 1 known", "yellow"),
        (Report(KEPT, run=Run(shard=Shard(number=2, of=4, selection=""))), "shard 2/4: 2 passed, 1 known", "yellow"),
        (Report([cell(outcome="failed")], narrowed=True), "part: 1 failed", "red"),
    ],
)  # fmt: skip
def test_a_badge_counts_cells_and_has_the_color_of_the_verdict(report, message, color):
    made = as_json(report)
    assert (made["message"], made["color"], made["isError"]) == (message, color, not report.ok)
    assert (made["schemaVersion"], made["label"]) == (1, "evalcheck")


@settings(thorough, max_examples=20)
@given(reports)
def test_a_badge_is_red_where_the_run_is_not_ok(report):
    made = as_json(report)
    assert made["message"]
    assert (made["color"] == "red") == (not report.ok)
