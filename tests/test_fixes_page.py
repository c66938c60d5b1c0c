"""The page of the fixes: what the docstrings say, with code that runs, and checks that fail before and pass after."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType

import pytest

import pytest_evalcheck as ec
from fixtures import fix_examples
from pytest_evalcheck.kinds.registry import shipped

ROOT = Path(__file__).parents[1]


def _script() -> ModuleType:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module("make_fixes")
    finally:
        sys.path.remove(str(ROOT / "docs"))


FIXES = _script().fixes()
each_fix = pytest.mark.parametrize("fix", FIXES, ids=[fix.name for fix in FIXES])


def test_the_page_is_what_the_docstrings_say() -> None:
    assert (ROOT / "docs" / "fixes.md").read_text(encoding="utf-8") == _script().page(), "run: python docs/make_fixes.py"


@each_fix
def test_a_fix_says_what_it_is_for(fix) -> None:
    assert {*_script().SECTIONS} <= {*fix.sections}
    assert fix.checks
    assert {*fix.checks} <= {made.code for made in shipped()}
    assert f"from {fix.module} import " in fix.sections["After"]


@each_fix
def test_the_checks_fail_before_and_pass_after(fix) -> None:
    described = fix.sections.get("Target")
    if described is None:
        pytest.skip("it is run elsewhere")
    for title, outcome in (("Before", "failed"), ("After", "passed")):
        target = fix_examples.target(fix.sections[title], described)
        report = ec.run(target, select=",".join(fix.checks), effort="quick", timeout=None)
        assert [(cell.code, cell.outcome, cell.reason) for cell in report.cells if cell.outcome != outcome] == [], title
        assert {cell.code for cell in report.cells} == {*fix.checks}
