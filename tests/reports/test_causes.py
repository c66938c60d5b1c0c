from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from report_samples import PLACE, cell, failure, reports, thorough

from pytest_evalcheck.reports.causes import Cause, causes_of, repeats
from pytest_evalcheck.reports.groups import by_fault, headline
from pytest_evalcheck.reports.results import Cell, Report

ELSEWHERE = "KeyError at lm.py:8 (g)"


def broken(code: str, target: str = "lm.py::a", **more: Any) -> Cell:
    """A broken cell; ``after`` and ``origin`` are of its failure."""
    of_failure = {name: more.pop(name) for name in ("after", "origin") if name in more}
    return cell(target, code, "failed", failure=failure(**of_failure), **more)


def codes(cells: list[Cell]) -> list[list[str]]:
    """The codes of each cause."""
    return [[one.code for one in cause.cells] for cause in causes_of(cells)]


def only(cells: list[Cell]) -> Cause[Cell]:
    (cause,) = causes_of(cells)
    return cause


def test_nothing_in_common_is_a_cause_each():
    assert codes([broken("EC201"), broken("EC206"), broken("EC201", "lm.py::b")]) == [["EC201"], ["EC206"], ["EC201"]]


def test_one_cause_in_a_target_and_one_cause_with_one_signature_in_several():
    leak, same = {"cause": "leak: seed"}, {"signature": "EC201: leak: seed"}
    cells = [
        broken("EC201", reason="seed moved by 3", **leak, **same),
        broken("EC202", reason="another seed", signature="EC202: leak: seed", **leak),
        broken("EC201", "lm.py::b", reason="seed moved by 17", **leak, **same),
        broken("EC201", "lm.py::c", reason="seed moved by 3", signature="EC201: leak: seed: NaN", **leak),
    ]
    assert codes(cells) == [["EC201", "EC202", "EC201"], ["EC201"]]
    assert only(cells[:3]).whys == ("", "the same cause: leak: seed", "the same cause: leak: seed")
    assert headline(only(cells[:3])) == "leak: seed"


@pytest.mark.parametrize("cause", ["timeout", "died", "inputs"])
def test_how_a_cell_ended_is_a_cause_in_its_target_alone(cause):
    reason = {"cause": cause, "reason": "the check did not end within 60 seconds", "signature": f"EC201: {cause}"}
    assert codes([broken("EC201", **reason), broken("EC202", **reason), broken("EC201", "lm.py::b", **reason)]) == [
        ["EC201", "EC202"],
        ["EC201"],
    ]


def test_one_error_at_one_line_is_one_cause_over_checks_and_targets():
    cells = [broken("EC203", origin=PLACE), broken("EC206", origin=PLACE), broken("EC201", "b.py::b", origin=PLACE)]
    assert only(cells).whys[1:] == (f"the same error: {PLACE}",) * 2


def test_an_error_beside_a_number_that_differs_is_another_cause_than_the_error_alone():
    alone = broken("EC001", origin=PLACE, severity="error")
    assert len(causes_of([alone, broken("EC501", origin=PLACE, severity="number")])) == 2
    assert len(causes_of([alone, broken("EC501", origin=PLACE, severity="error")])) == 1


def test_errors_of_one_type_at_two_lines_or_at_none_are_two_causes():
    assert len(causes_of([broken("EC203", origin=PLACE), broken("EC206", origin=ELSEWHERE)])) == 2
    assert len(causes_of([broken("EC203", origin="KeyError"), broken("EC206", origin="KeyError")])) == 2


def test_one_cause_by_two_errors_is_two_causes_whatever_its_signature():
    same = {"cause": "check", "signature": "EC901: check"}
    cells = [broken("EC901", origin=PLACE, **same), broken("EC901", "b.py::b", origin=ELSEWHERE, **same)]
    assert len(causes_of(cells)) == 2
    assert len(causes_of([cells[0], broken("EC901", "b.py::b", origin=PLACE, **same)])) == 1


def test_one_check_on_several_devices_is_one_cause():
    cells = [broken("EC203", device=device) for device in ("sim:mps", "cpu", "sim:cuda")]
    cause = only(cells)
    assert [each.device for each in cause.cells] == ["cpu", "sim:cuda", "sim:mps"]
    assert cause.whys[1:] == ("the same check on another device",) * 2


def test_a_check_follows_from_a_more_basic_one_of_its_target_on_its_device():
    basic, after = broken("EC210"), {"after": ("EC299", "EC210")}
    cause = only([broken("EC203", **after), basic, broken("EC204", after=("EC203",))])
    assert [each.code for each in cause.cells] == ["EC210", "EC203", "EC204"]
    assert cause.whys == (
        "",
        "probably caused by the EC210 failure",
        "probably caused by the EC203 failure",
    )
    assert len(causes_of([broken("EC203", "lm.py::b", **after), basic])) == 2
    assert len(causes_of([broken("EC203", device="sim:mps", **after), basic])) == 2
    assert len(causes_of([broken("EC203", **after), cell(code="EC210")])) == 2


def test_two_basic_failures_stay_two_causes_and_what_follows_is_below_the_first_that_the_check_names():
    cells = [broken("EC201"), broken("EC202"), broken("EC203", after=("EC202", "EC201"))]
    assert codes(cells) == [["EC202", "EC203"], ["EC201"]]


def test_an_error_at_another_line_than_that_of_the_more_basic_check_is_another_cause():
    basic = broken("EC201", origin=PLACE)
    assert len(causes_of([basic, broken("EC203", after=("EC201",), origin=ELSEWHERE)])) == 2
    assert len(causes_of([basic, broken("EC203", after=("EC201",))])) == 1


def test_what_could_not_be_tried_follows_from_no_check():
    assert len(causes_of([broken("EC201"), broken("EC203", after=("EC201",), cause="timeout")])) == 2
    assert len(causes_of([broken("EC201", cause="leak: seed"), broken("EC203", after=("EC201",))])) == 2
    assert len(causes_of([broken("EC201"), broken("EC203", after=("EC201",), cause="refused")])) == 1


def test_checks_that_name_each_other_are_one_cause_all_the_same():
    assert codes([broken("EC201", after=("EC202",)), broken("EC202", after=("EC201",))]) == [["EC201", "EC202"]]


def test_one_upstream_fault_is_one_cause():
    cells = [broken("EC219", f"lm.py::m{n:03}", upstream="torchmetrics-cache") for n in range(125)]
    cause = only(cells)
    assert len(cause.cells) == 125
    assert set(cause.whys[1:]) == {"the same upstream fault: torchmetrics-cache"}


def test_one_class_and_one_signature_are_one_cause():
    same = {"class_name": "library.Mean", "signature": "EC203 the value: number"}
    others = [{**same, "class_name": "library.Sum"}, {**same, "signature": "EC203 the value: error"}, {}]
    cells = [broken("EC203", f"lm.py::{n}", **more) for n, more in enumerate([same, same, *others])]
    assert sorted(map(len, codes(cells))) == [1, 1, 1, 2]


def test_without_a_class_the_same_values_of_one_comparison_are_one_cause():
    def valued(target: str, actual: str, **more: Any) -> Cell:
        more = {"signature": "EC201: split: another number", **more}
        return cell(target, "EC201", "failed", failure=failure(expected="0.5", actual=actual), **more)

    same = [valued("lm.py::a", "0.75"), valued("lm.py::b", "0.75")]
    assert only(same).whys[1:] == ("the same values of the same comparison",)
    others = [valued("lm.py::c", "0.7"), valued("lm.py::d", "0.75", class_name="library.Mean")]
    others += [valued("lm.py::e", "0.75", signature="")]
    assert sorted(map(len, codes([*same, *others]))) == [1, 1, 1, 2]


def test_accepted_failures_are_counted_by_their_causes_as_before():
    failed = [broken("EC201", origin=PLACE), broken("EC203", origin=PLACE), broken("EC206")]
    reasons = ("accepted now", "accepted, without a reason (evalcheck-known.toml:4)", "accepted now")
    known = [replace(each, outcome="known", reason=reason) for each, reason in zip(failed, reasons, strict=True)]
    assert [[each.code for each in cells] for cells in by_fault(known)] == codes(failed)
    told = [replace(known[0], reason="by design"), replace(known[1], reason="by design"), known[2]]
    assert [len(cells) for cells in by_fault(told)] == [2, 1]


def test_the_cause_with_the_most_cells_is_first_and_the_order_of_the_cells_changes_nothing():
    cells = [broken("EC201"), broken("EC202", origin=PLACE), broken("EC203", origin=PLACE)]
    assert codes(cells) == codes(cells[::-1]) == [["EC202", "EC203"], ["EC201"]]


def test_a_cell_repeats_the_most_basic_one_of_its_cause():
    basic, later = broken("EC201"), broken("EC203", after=("EC201",))
    assert repeats(later, [basic]) == (basic, "probably caused by the EC201 failure")
    assert repeats(basic, [later]) is None
    assert repeats(later, []) is None
    assert repeats(later, [broken("EC206")]) is None


def test_a_report_counts_the_causes_of_its_broken_cells_alone():
    known = cell("lm.py::b", "EC203", "known", upstream="torchmetrics-cache")
    report = Report([known, broken("EC203", upstream="torchmetrics-cache"), broken("EC206"), cell("lm.py::c")])
    assert [len(cause.cells) for cause in report.causes] == [1, 1]
    assert "2 failed of 2 causes, 1 known" in report.denominator
    assert "1 failed" in Report([broken("EC206")]).denominator


@thorough
@given(reports)
def test_causes_divide_any_cells(report):
    causes = report.causes
    assert sorted(id(one) for cause in causes for one in cause.cells) == sorted(map(id, report.of("failed")))
    for cause in causes:
        assert cause.whys[0] == ""
        assert all(cause.whys[1:])
        shown = [*cause.alike, *(one for cells in cause.others.values() for one in cells)]
        assert sorted(map(id, shown)) == sorted(map(id, cause.cells))
    for one in report.of("failed"):
        assert repeats(one, [one]) is None
