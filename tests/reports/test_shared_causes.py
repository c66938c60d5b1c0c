"""Causes of failures in real targets: one mistake is one cause, two independent mistakes are two."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from report_samples import cell, failure

import pytest_evalcheck as ec
from fixtures.gallery.shared_causes import MISTAKES, Mistake
from fixtures.gallery.table import CHECKS, SPECIMENS, Specimen
from pytest_evalcheck.reports.causes import causes_of


@pytest.mark.parametrize("mistake", [pytest.param(each, id=each.target.name) for each in MISTAKES])
@pytest.mark.slow(every=3)
def test_the_cells_of_a_mistake_are_its_causes(mistake: Mistake) -> None:
    report = ec.run(mistake.target, mistake.device, effort="quick", timeout=300)
    found = {cause.first.code: {one.code for one in cause.cells} for cause in report.causes}
    shown = [(one.code, one.cause, one.reason, one.failure and one.failure.origin) for one in report.of("failed")]
    assert found.keys() == {codes[0] for codes in mistake.causes}, shown
    assert len(found) == len(report.causes) == len(mistake.causes), shown
    assert all(set(codes) <= found[codes[0]] for codes in mistake.causes), shown


@pytest.mark.parametrize("specimen", [pytest.param(s, id=s.bug.name) for s in SPECIMENS if s.breaks_too])
def test_a_planted_bug_that_breaks_several_checks_is_one_cause(specimen: Specimen) -> None:
    # What breaks EC222 ends in an error, which every other check sees, too.
    origin = "ZeroDivisionError at metric.py:1" if specimen.code == "EC222" else ""
    assert len(causes_of(_broken([specimen.code, *specimen.breaks_too], origin))) == 1


def _broken(codes: Sequence[str], origin: str = "") -> list[ec.Cell]:
    """A broken cell of each check, in which values differ, or one error is raised."""
    failures = {code: failure(after=CHECKS[code].after, origin=origin) for code in codes}
    return [cell("a.py::m", code, "failed", failure=each) for code, each in failures.items()]


def test_more_basic_checks_exist_for_the_same_kinds_and_no_check_is_more_basic_than_itself() -> None:
    for made in CHECKS.values():
        for code in made.after:
            assert set(made.kinds) <= set(CHECKS[code].kinds), f"{made.code} after {code}"
    left = {code: set(made.after) for code, made in CHECKS.items()}
    while left:
        free = {code for code, after in left.items() if not after & left.keys()}
        assert free, f"a circle among {sorted(left)}"
        left = {code: after for code, after in left.items() if code not in free}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("EC101", "EC109"),
        ("EC201", "EC206"),
        ("EC204", "EC210"),
        ("EC301", "EC309"),
        ("EC401", "EC402"),
        ("EC501", "EC505"),
    ],
)
def test_what_is_independent_stays_two_causes(one: str, other: str) -> None:
    assert len(causes_of(_broken([one, other]))) == 2
