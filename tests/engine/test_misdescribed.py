"""Mistakes in a target are one error with the facts; a right description of a bug is no mistake."""

from __future__ import annotations

import importlib.util
import sys
import textwrap

import pytest
from misdescribed_targets import BUGS, HEADER, MISTAKES

import pytest_evalcheck as ec
from pytest_evalcheck.engine.target_errors import TARGET_ERROR


def target(folder, source):
    path = folder / "evalcheck_written.py"
    path.write_text(HEADER + textwrap.dedent(source))
    spec = importlib.util.spec_from_file_location("evalcheck_written", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["evalcheck_written"] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules["evalcheck_written"]
    return module.target


def text_of(cell):
    failure = cell.failure
    if failure is None:
        return cell.reason
    return "\n".join([cell.reason, failure.about, failure.expected, failure.actual, failure.detail, *failure.given])


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_of_description_is_one_error_with_the_facts(mistake, tmp_path):
    made = target(tmp_path, mistake.source)
    if made.problems:  # said when the target is collected
        text = "\n".join(made.problems)
    else:
        cells = ec.run(made, effort="quick").cells
        broken = [cell for cell in cells if cell.outcome == "failed"]
        assert [cell.cause for cell in broken] == [TARGET_ERROR], [cell.reason[:80] for cell in broken]
        assert {cell.outcome for cell in cells if cell is not broken[0]} <= {"not run", "not applicable"}
        text = text_of(broken[0])
    assert [word for word in mistake.words if word not in text] == [], text


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
@pytest.mark.slow(every=3)
def test_a_bug_with_a_right_description_is_not_misdescribed(bug, tmp_path):
    report = ec.run(target(tmp_path, bug.source), effort="quick")
    assert [cell.code for cell in report.cells if cell.cause == TARGET_ERROR] == []
    assert report.of("failed") or report.constant
