"""Errors on ordinary data by their origin: a finding, a mistake in the target, or not run."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.engine.target_errors import TARGET_ERROR
from pytest_evalcheck.reports.failure_text import format_failure

LIBRARY = """
class Share:
    def __init__(self):
        self.right, self.count = 0, 0
    def update(self, preds, target):
        self.right += int((preds == target).sum())
        self.count += len(target)
    def compute(self):
        return self.right / self.count

class Breaks(Share):
    def compute(self):
        return [][self.count]

class Refuses(Share):
    def compute(self):
        raise ValueError("expected three classes")

class Measures(Share):
    def update(self, preds, target):
        super().update(preds.shape, target)

class Needs(Share):
    def compute(self):
        import a_library_that_is_not_here
        return 1.0

class Renamed(Share):
    def compute(self):
        from json import a_name_that_is_not_there
        return 1.0

def of_all(preds, target):
    return float((preds == target).sum() / len(target))
"""
INPUTS = es.binary(of="labels")


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "library_of_errors.py").write_text(textwrap.dedent(LIBRARY))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield importlib.import_module("library_of_errors")
    del sys.modules["library_of_errors"]


def report_of(factory: Any, select: str = "", **more: Any) -> ec.Report:
    target = ec.metric(**{"inputs": INPUTS, **more})(factory)
    return ec.run(target, select=select, effort="quick")


def test_a_library_that_fails_is_one_finding_with_its_line(library: ModuleType) -> None:
    report = report_of(lambda: library.Breaks())
    (failed,) = report.of("failed")
    assert (failed.code, failed.cause) == ("EC222", "")
    assert "library_of_errors.py:" in format_failure(failed)
    assert {"passed", "not applicable", "failed"} == {cell.outcome for cell in report.cells}


def test_a_check_that_runs_alone_reports_the_error_itself(library: ModuleType) -> None:
    (failed,) = report_of(lambda: library.Breaks(), "EC201").cells
    assert failed.reason.startswith("a library fails on ordinary data: compute raised IndexError")
    assert "return [][self.count]" in format_failure(failed)


def test_a_known_error_leaves_a_run_ok(library: ModuleType) -> None:
    listed = {"EC222": ec.KnownFailure("it always fails", example={"samples": [(0, 0), (1, 1)], "batches": [[0, 1]]})}
    report = report_of(lambda: library.Breaks(), known_failures=listed)
    assert report.ok, report.verdict.line


def test_code_in_the_file_of_the_target_is_a_mistake_in_it(library: ModuleType) -> None:
    class Own(library.Share):  # type: ignore[name-defined, misc]
        def compute(self) -> Any:
            return [][self.count]

    (failed,) = report_of(lambda: Own()).of("failed")
    assert failed.cause == TARGET_ERROR
    assert "return [][self.count]" in format_failure(failed)


@pytest.mark.parametrize(("name", "inputs"), [("Refuses", INPUTS), ("Measures", INPUTS.as_list())])
def test_data_that_a_library_does_not_take_are_a_mistake(library: ModuleType, name: str, inputs: Any) -> None:
    (failed,) = report_of(lambda: getattr(library, name)(), inputs=inputs).of("failed")
    assert failed.cause == TARGET_ERROR


def importing_collate(rows: Any) -> Any:
    import a_library_that_is_not_here

    return a_library_that_is_not_here.made(rows)


@pytest.mark.parametrize("where", ["factory", "compute", "collate"])
def test_a_library_that_is_not_installed_is_not_run_by_its_name(library: ModuleType, where: str) -> None:
    def factory() -> Any:
        if where == "factory":
            importlib.import_module("a_library_that_is_not_here")
        return library.Needs() if where == "compute" else library.Share()

    inputs = INPUTS.replace(collate=importing_collate) if where == "collate" else INPUTS
    report = report_of(factory, inputs=inputs)
    assert {cell.outcome for cell in report.cells} <= {"not run", "not applicable"}
    cells = report.of("not run")
    assert {cell.missing for cell in cells} == {("a_library_that_is_not_here",)}
    assert "requires=('a_library_that_is_not_here',)" in cells[0].reason
    assert not report.ok


def test_a_name_that_a_release_lacks_is_excused_by_nothing(library: ModuleType) -> None:
    cells = report_of(lambda: library.Renamed()).of("not run")
    assert {cell.missing for cell in cells} == {()}
    assert "cannot import name 'a_name_that_is_not_there'" in cells[0].reason


def test_an_error_of_an_adapter_is_never_expected(library: ModuleType) -> None:
    ignored = INPUTS.replace(ignored=INPUTS.sample)  # of samples that must not count, none is left
    (cell,) = report_of(lambda: library.of_all, "EC213", inputs=ignored).cells
    assert cell.outcome == "failed", "the function counts all samples"
    assert "no batch was given" not in format_failure(cell)
