"""The one verdict on a run: what is against it, in which words, and that a report is no truth value."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_samples import small

from pytest_evalcheck.reports.json import load, write
from pytest_evalcheck.reports.results import Cell, Report, VerdictError

KEPT = Cell(
    target="a.py::mean", kind="metric", check="splits", code="EC201", device="cpu", outcome="passed", examples=3
)
CONSTANT = replace(KEPT, value="1.0")
INAPPLICABLE = replace(KEPT, outcome="not applicable", reason="no reference")
ABSENT = replace(
    KEPT, outcome="not run", reason="mosaicml is not installed", missing=("mosaicml",), target="a.py::other"
)


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (Report([KEPT]), "evalcheck: ok: 1 passed"),
        (Report([KEPT, INAPPLICABLE]), "evalcheck: ok: 1 passed, 1 not applicable"),
        (Report([replace(KEPT, outcome="known")]), "evalcheck: ok: 1 known"),
        (Report([]), "evalcheck: not ok: nothing was tried"),
        (Report([INAPPLICABLE]), "evalcheck: not ok: no check was tried of a.py::mean"),
        (Report([INAPPLICABLE], narrowed=True), "evalcheck: not ok: nothing was tried"),
        (Report([KEPT, replace(INAPPLICABLE, target="b.py::t")]), "evalcheck: not ok: no check was tried of b.py::t"),
        (
            Report([KEPT, replace(INAPPLICABLE, target="b.py::t")], narrowed=True),
            "evalcheck: ok: 1 passed, 1 not applicable",
        ),
        (Report([KEPT, replace(KEPT, outcome="incomplete")]), "evalcheck: not ok: 1 incomplete"),
        (Report([replace(KEPT, outcome="incomplete")]), "evalcheck: not ok: 1 incomplete"),
        (Report([replace(KEPT, outcome="failed")] * 2), "evalcheck: not ok: 2 failed of 1 cause"),
        (Report([KEPT, ABSENT]), "evalcheck: not ok: 1 not run (mosaicml is not installed)"),
        (
            Report([KEPT, ABSENT], optional=["mosaicml"]),
            "evalcheck: ok: 1 passed, 1 not run (optional: mosaicml is not installed)",
        ),
        (Report([ABSENT], optional=["mosaicml"]), "evalcheck: not ok: nothing was tried"),
        (
            Report([KEPT, replace(ABSENT, missing=("mosaicml", "cuda"))], optional=["mosaicml"]),
            "evalcheck: not ok: 1 not run (mosaicml is not installed)",
        ),
        (
            Report([KEPT, replace(ABSENT, missing=())], optional=["mosaicml"]),
            "evalcheck: not ok: 1 not run (mosaicml is not installed)",
        ),
        (
            Report([KEPT, *(replace(ABSENT, reason=f"no {name}") for name in "abbcde")]),
            "evalcheck: not ok: 6 not run (no a; no b; no c; and 2 more)",
        ),
        (
            Report([CONSTANT]),
            "evalcheck: not ok: a.py::mean gave 1.0 in all cases of all checks, which tests nothing (samples need right= "
            "and wrong=, or answers that can be right)",
        ),
        (Report([CONSTANT, replace(KEPT, outcome="known", severity="error")]), "evalcheck: ok: 1 passed, 1 known"),
        (Report([CONSTANT, replace(KEPT, outcome="known", severity="number")]), "evalcheck: ok: 1 passed, 1 known"),
        (
            Report([CONSTANT, replace(KEPT, outcome="known", severity="cost")]),
            "evalcheck: not ok: a.py::mean gave 1.0 in all cases of all checks, which tests nothing (samples need right= "
            "and wrong=, or answers that can be right)",
        ),
        (Report([KEPT], problems=["a.py:3: lost"]), "evalcheck: not ok: a.py:3: lost"),
        (
            Report([replace(KEPT, outcome="failed"), ABSENT], problems=["lost"]),
            "evalcheck: not ok: 1 failed, 1 not run (mosaicml is not installed), lost",
        ),
    ],
)
def test_the_line_says_what_is_against_the_run(report: Report, line: str, tmp_path) -> None:
    assert report.verdict.line == line
    assert report.ok is line.startswith("evalcheck: ok")
    write(report, tmp_path / "out.json")
    assert load(tmp_path / "out.json").verdict == report.verdict


def test_a_report_is_no_truth_value() -> None:
    with pytest.raises(TypeError, match=r"report\.ok .* report\.raise_for_failures\(\)"):
        assert Report([replace(KEPT, outcome="failed")])
    with pytest.raises(TypeError, match="no truth value"):
        not Report([])
    report = Report([KEPT, ABSENT])
    assert len(report) == 2
    assert list(report) == [KEPT, ABSENT]


def test_failures_are_raised_with_all_there_is_to_say() -> None:
    assert Report([KEPT]).raise_for_failures() is None
    cells = [replace(KEPT, outcome="incomplete", reason="3 of 25 cases"), ABSENT, *small().of("failed")]
    with pytest.raises(VerdictError) as caught:
        Report(cells).raise_for_failures()
    text = str(caught.value)
    assert isinstance(caught.value, AssertionError)
    assert text.startswith(
        "evalcheck: not ok: 3 failed of 2 causes, 1 incomplete, 1 not run (mosaicml is not installed)"
    )
    assert "fails for" in text
    assert "reproduce    " in text
    assert "incomplete: EC201 a.py::mean on cpu: 3 of 25 cases" in text
    assert "not run: EC201 a.py::other on cpu: mosaicml is not installed" in text


def test_a_target_of_which_nothing_is_tried_says_why() -> None:
    with pytest.raises(VerdictError, match=r"not applicable: EC201 a\.py::mean on cpu: no reference"):
        Report([INAPPLICABLE]).raise_for_failures()
