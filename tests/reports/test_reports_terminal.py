from __future__ import annotations

import io
import random
import re
from dataclasses import replace

import pytest
from _pytest._io import TerminalWriter
from hypothesis import given
from hypothesis import strategies as st
from report_samples import PLACE, cell, failure, reports, small, thorough

from pytest_evalcheck.reports.groups import sections
from pytest_evalcheck.reports.results import DECLARED, OUTCOMES, REFUSES, Report
from pytest_evalcheck.reports.terminal import MOST_LINES, Page, emit, matrix, render, text
from pytest_evalcheck.reports.text import columns, line, plain

AT_80 = """\
evalcheck_lm.py     EC201 EC203 EC204 EC210
  accuracy            ·     ✗     -     !
  f1                  ·     ·     !     !
evalcheck_mean.py   EC201 EC203
  mean                ·     ·
evalcheck_text.py   EC201 EC204
  bleu                ✗     ✗
  rouge               ?     ?
· passed  ✗ failed  ! known  - not applicable  ? not run

Failed: 3 checks, 2 causes
  ✗ leak: default dtype
    every check: evalcheck_text.py::bleu
    the target left float64 behind as the default dtype
    pytest --evalcheck 'evalcheck_text.py::bleu::reset[cpu]' --evalcheck-replay=AAAA
  ✗ EC203 merging shards gives the value of the whole
    evalcheck_lm.py::accuracy
    the value after merging the shards: expected 0.5, got 0.25
    pytest --evalcheck 'evalcheck_lm.py::accuracy::merging_shards[cpu]' --evalcheck-replay=AAEC

Known failures: 3 checks, 2 causes
  ! EC210, 2 checks: a rejected batch is counted
    Lightning-AI/torchmetrics#2345
  ! EC204, 1 check: the inner metric is kept

not shown: EC201 cutting a stream does not change the value reached no "all of
    size 1" (evalcheck_lm.py::f1)

Not run: 2 checks
  ? nltk is not installed
    every check: evalcheck_text.py::rouge

5 targets, 14 checks: 5 passed, 3 failed of 2 causes, 3 known, 1 not applicable, 2 not run"""

AT_40 = """\
evalcheck_lm.py
           EC201 EC203 EC204 EC210
  accuracy   ·     ✗     -     !
  f1         ·     ·     !     !
evalcheck_mean.py
           EC201 EC203
  mean       ·     ·
evalcheck_text.py
           EC201 EC204
  bleu       ✗     ✗
  rouge      ?     ?
· passed  ✗ failed  ! known
- not applicable  ? not run

Failed: 3 checks, 2 causes
  ✗ leak: default dtype
    every check: evalcheck_text.py::bleu
    the target left float64 behind as
    the default dtype
    pytest --evalcheck 'evalcheck_text.py::bleu::reset[cpu]' --evalcheck-replay=AAAA
  ✗ EC203 merging shards gives the value
    of the whole
    evalcheck_lm.py::accuracy
    the value after merging the shards:
    expected 0.5, got 0.25
    pytest --evalcheck 'evalcheck_lm.py::accuracy::merging_shards[cpu]' --evalcheck-replay=AAEC

Known failures: 3 checks, 2 causes
  ! EC210, 2 checks: a rejected batch i…
    Lightning-AI/torchmetrics#2345
  ! EC204, 1 check: the inner metric is…

not shown: EC201 cutting a stream does
    not change the value reached no "all
    of size 1" (evalcheck_lm.py::f1)

Not run: 2 checks
  ? nltk is not installed
    every check:
      evalcheck_text.py::rouge

5 targets, 14 checks: 5 passed, 3 failed of 2 causes, 3 known, 1 not applicable, 2 not run"""

AT_200 = AT_80.replace('"all of\n    size 1"', '"all of size 1"').replace(
    "EC210, 2 checks: a rejected batch is counted\n    Lightning-AI/torchmetrics#2345",
    "EC210, 2 checks, Lightning-AI/torchmetrics#2345: a rejected batch is counted",
)


@pytest.mark.parametrize(("width", "expected"), [(40, AT_40), (80, AT_80), (200, AT_200)])
def test_a_small_report_looks_like_this(width, expected):
    assert text(small(), width=width) == expected


def _report_of(names: list[str], devices: tuple[str, ...] = ("cpu",)) -> Report:
    """Eighteen promises; the first target breaks the third, the second one is known for two."""
    cells = []
    for index, name in enumerate(names):
        for device in devices:
            for number in range(1, 19):
                outcome = "failed" if (index, number) == (0, 3) else "passed"
                outcome = "known" if index == 1 and number in (4, 5, 6, 9) else outcome
                outcome = "not applicable" if number == 14 else outcome
                cells.append(cell(f"evalcheck_lm.py::{name}", f"EC2{number:02}", outcome, device=device))
    return Report(cells)


def _matrix(report: Report, width: int, **more) -> str:
    page = Page(**{"width": width, "unicode": True, "verbosity": 0, **more})
    return "\n".join("".join(part for part, _ in line).rstrip() for line in matrix(page, report))


def test_eighteen_promises_fit_200_columns_with_whole_codes():
    heads = " ".join(f"EC2{number:02}" for number in range(1, 19))
    assert _matrix(_report_of(["accuracy", "f1"]), 200).splitlines()[0] == f"evalcheck_lm.py   {heads}"


def test_eighteen_promises_fit_80_columns_with_short_codes():
    assert _matrix(_report_of(["accuracy", "multiclass_f1_macro_top3"]), 80) == (
        "evalcheck_lm.py        EC2 01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 17 18\n"
        "  accuracy                 ·  ·  ✗  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  -  ·  ·  ·  ·\n"
        "  multiclass_f1_macro_top3 ·  ·  ·  !  !  !  ·  ·  !  ·  ·  ·  ·  -  ·  ·  ·  ·\n"
        "· passed  ✗ failed  ! known  - not applicable"
    )


def test_a_long_name_gives_way_in_the_middle():
    names = ["multiclass_accuracy_macro_top3", "multiclass_accuracy_macro_top2"]
    rows = _matrix(_report_of(names), 80).splitlines()[1:3]
    assert [row.split()[0] for row in rows] == ["multiclass_a…_macro_top2", "multiclass_a…_macro_top3"]


def test_eighteen_promises_become_a_list_of_what_is_not_kept_at_40_columns():
    assert _matrix(_report_of(["accuracy", "multiclass_f1_macro_top3", "recall"]), 40) == (
        "evalcheck_lm.py\n"
        "  accuracy  ✗ EC203\n"
        "  multiclass_f1_macro_top3\n"
        "    ! EC204-EC206  ! EC209\n"
        "  recall  · 17 passed\n"
        "· passed  ✗ failed  ! known\n"
        "- not applicable"
    )


def test_a_target_of_which_nothing_applies_does_not_look_kept():
    report = Report(cell(code=f"EC2{n:02}", outcome="not applicable") for n in range(10, 30))
    assert _matrix(report, 40).splitlines()[1] == "  accuracy  - 20 not applicable"


def test_several_devices_are_rows_of_their_own():
    report = Report([cell(device="cpu"), cell(device="sim:mps", outcome="failed")])
    assert _matrix(report, 80).splitlines()[1:3] == ["  accuracy[cpu]       ·", "  accuracy[sim:mps]   ✗"]


def test_kinds_in_one_file_are_parts_of_their_own_and_a_lost_kind_is_not_a_kind():
    report = Report(
        [
            cell("a.py::m", "EC201"),
            cell("a.py::m", "EC202", kind="", outcome="failed"),
            cell("a.py::w", "EC101", kind="wrapper"),
        ]
    )
    assert _matrix(report, 80) == (
        "a.py, metric    EC201 EC202\n"
        "  m               ·     ✗\n"
        "a.py, wrapper   EC101\n"
        "  w               ·\n"
        "· passed  ✗ failed"
    )


def test_quiet_leaves_what_is_broken_or_known_and_the_denominator():
    assert text(small(), width=80, verbosity=-1) == (
        "✗ EC201 evalcheck_text.py::bleu and 1 more: leak: default dtype: the target left\n"
        "  float64 behind as the default dtype\n"
        "✗ EC203 evalcheck_lm.py::accuracy: the value after merging the shards: expected\n"
        "  0.5, got 0.25\n"
        "! EC210 evalcheck_lm.py::accuracy and 1 more (Lightning-AI/torchmetrics#2345): a\n"
        "  rejected batch is counted\n"
        "! EC204 evalcheck_lm.py::f1: the inner metric is kept\n"
        "5 targets, 14 checks: 5 passed, 3 failed of 2 causes, 3 known, 1 not applicable, 2 not run"
    )


def test_very_quiet_leaves_the_denominator():
    assert text(small(), verbosity=-2) == small().denominator


def test_verbose_adds_what_is_not_applicable_and_shortens_nothing():
    names = [f"metric_{number:02}" for number in range(40)]
    cells = [cell(f"a.py::{name}", "EC203", "not run", reason="no time " * 90) for name in names[:-1]]
    report = Report([*cells, cell("a.py::metric_39", outcome="not applicable", reason="order matters here")])
    brief, whole = text(report, verbosity=0), text(report, verbosity=1)
    assert "metric_07, 31 more" in line(brief)
    assert "not applicable" not in brief.split("\n\n", 1)[1].split("\n\n")[0]
    assert "order matters here" not in brief
    assert "- order matters here\n    EC201: a.py::metric_39" in whole
    assert all(name in whole.split("Not run", 1)[1] for name in names[:-1])


def test_twenty_hits_of_one_cause_print_once():
    hits = [
        cell(f"a.py::m{n}", "EC203", "failed", cause="leak: RNG", signature="EC203: leak", reason="moved the RNG")
        for n in range(20)
    ]
    shown = text(Report([*hits, cell("a.py::fine")]))
    assert shown.count("leak: RNG") == shown.count("moved the RNG") == 1
    assert "EC203: a.py::m0, m1, m10, m11, m12, m13, m14, m15, 12 more" in line(shown)


def test_reasons_of_one_cause_are_told_apart_up_to_ten_more():
    hits = [
        cell(
            f"a.py::m{n}",
            "EC203",
            "failed",
            cause="error",
            signature="EC203: value: another number",
            reason=f"error {n}",
        )
        for n in range(13)
    ]
    shown = text(Report(hits))
    assert "      EC203: a.py::m1: error 1\n" in shown
    assert len(re.findall(r"error \d+$", shown, re.M)) == 1 + 10
    assert "    and 2 checks more, with -v\n" in shown
    whole = text(Report(hits), verbosity=1)
    assert sorted(re.findall(r"error (\d+)$", whole, re.M), key=int) == [str(n) for n in range(13)]


def test_incomplete_cells_show_how_far_they_came_and_what_to_do():
    reached = {"examples": 3, "planned": 25, "conditions": {"one rank": 3, "an empty shard": 0, "two": 0}}
    report = Report([cell(outcome="incomplete", **reached), cell("a.py::fine")])
    assert (
        "Incomplete: 1 check\n"
        '  ~ 3 of 25 cases were tried, reached no "an empty shard", no "two"\n'
        "    EC201: evalcheck_lm.py::accuracy\n"
        "  Give these checks more time (`timeout=` of the target, --evalcheck-timeout=), or try fewer cases\n"
        "  (--evalcheck-effort=quick).\n"
    ) in text(report, unicode=False)


ONE_CAUSE = """\
Failed: 5 checks, 2 causes
  ✗ EC301 a promise of somebody else
    lm.py::model
    the second one: 1.0, expected 2.0
    pytest --evalcheck-replay=AAAA
    probably caused by the EC301 failure:
      EC302 a promise of somebody else: the first one: KeyError
      EC303 a promise of somebody else: the third one: KeyError
    the same error: KeyError at lm.py:7 (f):
      EC301: lm.py::other: the fourth one: KeyError
  ✗ EC306 a promise of somebody else
    lm.py::model
    of its own
"""


def test_one_cause_is_one_headline_with_its_cells_below():
    report = Report(
        [
            cell("lm.py::model", "EC306", "failed", reason="of its own", failure=failure()),
            cell("lm.py::other", "EC301", "failed", reason="the fourth one: KeyError", failure=failure(origin=PLACE)),
            cell(
                "lm.py::model", "EC303", "failed", reason="the third one: KeyError", failure=failure(after=("EC301",))
            ),
            cell(
                "lm.py::model",
                "EC302",
                "failed",
                reason="the first one: KeyError",
                failure=failure(after=("EC399", "EC301"), origin=PLACE),
            ),
            cell(
                "lm.py::model",
                "EC301",
                "failed",
                reason="the second one: 1.0, expected 2.0",
                failure=failure(reproduce="pytest --evalcheck-replay=AAAA"),
            ),
        ]
    )
    assert ONE_CAUSE in text(report)
    assert report.denominator.startswith("2 targets, 5 checks: 5 failed of 2 causes")


def test_what_a_failure_did_not_reach_is_not_held_against_it():
    missed = {"examples": 3, "conditions": {"empty shard": 0}}
    broken = Report([cell(outcome="failed", **missed), cell("a.py::b", outcome="known", **missed)])
    assert "not shown" not in text(broken)
    assert 'reached no "empty shard" (a.py::b)' in text(Report([cell("a.py::b", **missed)]))


def test_a_target_that_was_not_tried_is_an_error_before_the_denominator():
    report = Report([cell(), cell("a.py::idle", outcome="not applicable")])
    lines = text(report).splitlines()
    assert lines[-2:] == ["ERROR: no check of a.py::idle was tried, so nothing is known about it", report.denominator]
    last = list(render(report, width=80, color=True, untried=report.untried))[-1]
    assert last == ((report.denominator, {"red": True, "bold": True}),)


@pytest.mark.parametrize("said", [DECLARED, REFUSES])
def test_what_turned_out_to_be_no_metric_is_no_target_that_was_not_tried(said):
    report = Report(
        [cell(), cell("a.py::idle", outcome="not applicable", undeclared=True, reason=f"{said}: another value")]
    )
    assert report.ok
    assert not report.untried
    assert ("a.py::idle" in text(report)) == (said == DECLARED)


def test_one_value_of_what_was_found_by_trial_decides_that_it_is_no_metric():
    cells = [cell("a.py::same", code, value="0.5", undeclared=True) for code in ("EC201", "EC202")]
    report = Report([cell(varies=True), *cells])
    assert report.ok
    lines = text(report).splitlines()
    start = lines.index("Declared not a function of a set of samples: 1 check")
    assert "it gave 0.5 in all cases" in "".join(lines[start + 1 : start + 4])
    declared = Report([cell(varies=True), *(replace(each, undeclared=False) for each in cells)])
    assert declared.constant == {"a.py::same": "0.5"}
    assert not declared.ok
    assert Report([*report.cells, replace(cells[0], varies=True)]).constant_by_trial == {}


@pytest.mark.parametrize(
    ("report", "color"),
    [
        (Report([cell()]), "green"),
        (Report([cell(), cell("a.py::b", outcome="known")]), "green"),
        (small(), "red"),
        (Report(), "red"),
        (Report([cell(outcome="not run")]), "red"),
    ],
)
def test_the_denominator_is_green_only_when_something_was_tried_and_nothing_broke(report, color):
    *_, last = render(report, width=80, color=True)
    assert last == ((report.denominator, {color: True, "bold": True}),)


def test_nothing_is_one_line():
    assert text(Report()) == "0 targets, 0 checks"


@pytest.mark.parametrize("unicode", [True, False])
def test_outcomes_differ_without_colour(unicode):
    page = Page(width=80, unicode=unicode, verbosity=0)
    assert len({page.symbol(outcome) for outcome in OUTCOMES}) == len(OUTCOMES)
    assert all(columns(page.symbol(outcome)) == 1 for outcome in OUTCOMES)


def test_lines_go_to_the_terminal_of_pytest_with_their_colours():
    file = io.StringIO()
    writer = TerminalWriter(file)
    writer.hasmarkup = True
    emit(render(small(), width=80, color=True), writer.write)
    shown = file.getvalue()
    assert "\x1b[31m\x1b[1m   ✗  \x1b[0m" in shown
    assert [each.rstrip() for each in plain(shown).splitlines()] == AT_80.splitlines()


def test_a_large_run_stays_compact():
    names = [f"metric_{number:02}" for number in range(80)]
    report = _report_of(names)
    known = sum(c.outcome == "known" for c in report.cells)
    assert (known, len(report.cells)) == (4, 80 * 18)
    shown = text(report, width=80)
    assert len(shown.splitlines()) < 30
    assert "metric_00" in shown
    assert "  and 79 rows more: 1339 passed, 4 known, 79 not applicable" in shown
    assert all(name in text(report, width=80, verbosity=1) for name in names)


def test_files_in_which_nothing_is_broken_are_a_line_each_in_a_large_run():
    report = Report(cell(f"{file}.py::m{n:02}", "EC201") for file in "ab" for n in range(30))
    assert text(report).splitlines()[:3] == ["a.py: 30 rows: 30 passed", "b.py: 30 rows: 30 passed", "· passed"]


def test_many_known_failures_are_a_line_each_and_counted():
    known = [
        cell(f"a.py::m{n}", "EC219", "known", reason=f"reason {n}", upstream=f"library-{n % 15}") for n in range(300)
    ]
    shown = text(Report([*known, cell("b.py::m")]))
    assert "Known failures: 300 checks, 15 causes\n  ! EC219, 20 checks, library-" in shown
    assert "  and 100 checks more, with -v\n" in shown
    assert len(shown.splitlines()) < 30


@thorough
@given(
    report=reports,
    width=st.sampled_from([1, 32, 40, 80, 200]),
    verbosity=st.integers(-2, 2),
    unicode=st.booleans(),
)
def test_no_text_breaks_a_line_or_reaches_the_terminal(report, width, verbosity, unicode):
    lines = list(render(report, width=width, verbosity=verbosity, unicode=unicode, color=True, untried=report.untried))
    whole = {"    " + line(t, unicode=unicode) for c in report.cells for t in (c.reproduce, c.see, c.upstream)}
    for segments in lines:
        shown = "".join(part for part, _ in segments)
        assert "\n" not in shown
        assert plain(shown, unicode=unicode) == shown
        assert columns(shown) <= max(width, 32) or shown in whole | {report.denominator}
    assert "".join(part for part, _ in lines[-1]) == report.denominator
    bare = list(render(report, width=width, verbosity=verbosity, unicode=unicode, untried=report.untried))
    assert [[part for part, _ in each] for each in bare] == [[part for part, _ in each] for each in lines]
    assert not any(markup for each in bare for _, markup in each)


@thorough
@given(report=reports)
def test_columns_stand_under_their_heads(report):
    lines = list(matrix(Page(width=20_000, unicode=True, verbosity=0), report))
    parts = sections(report)
    for part in parts:
        head, *rows = lines[: len(part.rows) + 1]
        del lines[: len(part.rows) + 1]
        assert head[-1][0] == "".join(f" {line(code)}" for code in part.codes)
        assert {columns("".join(text for text, _ in row)) for row in rows} == {
            columns("".join(text for text, _ in head))
        }
        for row in rows:
            assert [columns(text) for text, _ in row[1:]] == [columns(line(code)) + 1 for code in part.codes]
    assert sum(len(part.rows) for part in parts) == len({(c.target, c.device) for c in report.cells})
    assert len(lines) == bool(parts)


@thorough
@given(report=reports, seed=st.integers(0, 9))
def test_the_order_in_which_cells_arrive_does_not_show(report, seed):
    unique = list({(c.target, c.device, c.code): c for c in report.cells}.values())
    shuffled = random.Random(seed).sample(unique, len(unique))
    assert text(Report(shuffled), verbosity=1) == text(Report(unique), verbosity=1)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_large_run_ends_in_few_lines_beside_its_failures(width: int) -> None:
    """Each part is longer than all may be, so that the shortest form of all parts is seen."""
    codes = [f"EC2{number:02}" for number in range(1, 40)]
    cells = [cell(f"pkg/evalcheck_{n}.py::metric_{n:03}", code, seconds=n + 1) for n in range(200) for code in codes]
    cells += [
        cell(f"a.py::k{n}", "EC219", "known", reason=f"reason {n} " * 9, upstream=f"fault-{n}") for n in range(90)
    ]
    cells += [cell(f"b.py::n{n}", "EC201", "not run", reason=f"package-{n} is not installed") for n in range(90)]
    cells += [
        cell(f"c.py::u{n}", code, conditions={f"a condition {n}": 0}, examples=1)
        for n in range(30)
        for code in codes[:2]
    ]
    green = text(Report(cells), width=width)
    assert len(green.splitlines()) <= MOST_LINES + 1
    red = [
        cell(f"d.py::x{n}", "EC203", "failed", reason=f"error {'abcdefghijklmnop'[n]}", failure=failure())
        for n in range(12)
    ]
    shown = text(Report([*cells, *red]), width=width)
    _, _, broken = shown.partition("Failed: 12 checks, 12 causes\n")
    failures = broken.partition("\n\n")[0].splitlines()
    assert len(failures) == 10 * 3 + 2  # a headline, where, why; and the last two in a line each
    assert failures[-1].startswith("  ✗ EC203 d.py::x9: error")
    assert len(shown.splitlines()) - len(failures) <= MOST_LINES + 3
    whole = text(Report([*cells, *red]), width=width, verbosity=1)
    assert all(f"reason {n} " in whole and f"package-{n} " in whole for n in range(90))
    assert max(map(len, green.splitlines()[:-1])) <= width
