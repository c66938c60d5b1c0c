"""The page of the fixes: what the docstrings say, with code that runs, and checks that fail before and pass after."""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import pytest_evalcheck as ec
from fixtures import fix_examples
from pytest_evalcheck.fixes.scoring.sandbox import SandboxError
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
    assert (ROOT / "docs" / "fixes.md").read_text(encoding="utf-8") == _script().page(), (
        "run: python docs/make_fixes.py"
    )


@each_fix
def test_a_fix_says_what_it_is_for(fix: Any) -> None:
    assert {*_script().SECTIONS} <= {*fix.sections}
    assert fix.checks
    assert {*fix.checks} <= {made.code for made in shipped()}
    assert f"from {fix.module} import " in fix.sections["After"]


@each_fix
@pytest.mark.filterwarnings("ignore")  # those of the libraries
@pytest.mark.slow(every=3)
def test_the_code_runs_and_its_checks_fail_before_and_pass_after(fix: Any) -> None:
    described = fix.sections.get("Target", "")
    for title, outcome in (("Before", "failed"), ("After", "passed")):
        if "(" not in described:
            with suppress(ImportError, SandboxError):  # of Composer; of a machine without bubblewrap
                fix_examples.made(fix.sections[title], fix_examples.kind_of(described), "None")
            continue
        device = "sim:mps" if fix.checks[0].startswith("EC6") else "cpu"
        target = fix_examples.target(fix.sections[title], described)
        report = ec.run(target, device, select=",".join(fix.checks), effort="quick", timeout=None)
        assert not [cell.reason for cell in report.cells if cell.failure and cell.failure.untestable], title
        assert {cell.code: cell.outcome for cell in report.cells} == dict.fromkeys(fix.checks, outcome), "\n".join(
            f"{title}: {cell.code} {cell.reason}" for cell in report.cells
        )
