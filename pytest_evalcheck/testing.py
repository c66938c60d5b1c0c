"""Test your own checks, kinds and adapters: write a small project, run pytest over it, and read what came out.

Enable it in a ``conftest.py`` with ``pytest_plugins = ["pytester", "pytest_evalcheck.testing"]``, and ask for the
fixture ``evalcheck_project``::

    def test_my_check_finds_the_bug(evalcheck_project):
        evalcheck_project.write(SOURCE).run("--evalcheck-select=MY101").assert_outcomes(failed=1)
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import re
import shutil
import sys
import textwrap
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import pytest_evalcheck
from pytest_evalcheck import engine, integration, kinds, reports
from pytest_evalcheck.live_objects import all_objects
from pytest_evalcheck.reports.json import load
from pytest_evalcheck.reports.results import OUTCOMES, Cell, Report


@dataclass
class Project:
    """A folder of target files, and pytest over it."""

    pytester: pytest.Pytester
    header: str = "import pytest_evalcheck as ec\nfrom pytest_evalcheck import strategies as es\n"
    """The beginning of every file of targets."""

    @property
    def path(self) -> Path:
        """The folder."""
        return self.pytester.path

    def write(self, *sources: str, name: str = "evalcheck_example.py", header: str | None = None) -> Project:
        """Write one file: the header, then the sources with their common indentation removed."""
        body = (self.header if header is None else header) + "".join(textwrap.dedent(source) for source in sources)
        (self.path / name).write_text(body, encoding="utf-8")
        return self

    def run(self, *arguments: str, code: int | None = None, evalcheck: bool = True) -> Result:
        """Run pytest in this process, without the plugins that change the order of tests or their workers.

        Raises:
            AssertionError: when ``code`` is given and the exit code is another.
        """
        self._forget_bytecode()
        options = ["-p", "no:randomly", "-p", "no:cacheprovider", *(["--evalcheck", self._report] if evalcheck else [])]
        try:
            return self._result(self.pytester.runpytest_inprocess(*options, *arguments), code)
        finally:
            all_objects()

    def spawn(self, *arguments: str, code: int | None = None) -> Result:
        """Run pytest in a process of its own: for what changes the process, and for what registers something.

        Raises:
            AssertionError: when ``code`` is given and the exit code is another.
        """
        self._forget_bytecode()
        options = ["-p", "no:randomly", *([self._report] if "--evalcheck" in arguments else [])]
        return self._result(self.pytester.runpytest_subprocess(*options, *arguments), code)

    def _forget_bytecode(self) -> None:
        """A file that was written again within a second, as long as before, would be loaded as it was."""
        for folder in list(self.path.rglob("__pycache__")):
            shutil.rmtree(folder)

    @property
    def _report(self) -> str:
        return f"--evalcheck-report=json={self.path / '.evalcheck' / 'report.json'}"

    def _result(self, made: pytest.RunResult, code: int | None) -> Result:
        text = made.stdout.str()
        ended = any(re.search(r" in \d+\.\d\ds", line) for line in text.splitlines()[-3:])  # the verdict is last
        outcomes = made.parseoutcomes() if ended else {}
        result = Result(made.ret, text, made.stderr.str(), outcomes, self.path / ".evalcheck" / "report.json")
        if code is not None:
            assert made.ret == code, result.text + result.errors
        return result


@dataclass
class Result:
    """Output and report of a run of pytest."""

    code: int
    """The exit code."""
    text: str
    """The standard output."""
    errors: str
    """The standard error output."""
    outcomes: dict[str, int]
    """The counts of pytest's last line."""
    report_path: Path

    @property
    def output(self) -> str:
        """The standard output and the standard error output."""
        return self.text + self.errors

    @cached_property
    def report(self) -> Report:
        """The cells of the run, read from its JSON report.

        Raises:
            OSError: when the run wrote none.
        """
        return load(self.report_path)

    def cell(self, check: str, target: str = "", device: str = "") -> Cell:
        """The one cell of a check, by its code or its name; of a target and on a device where several have it.

        Raises:
            AssertionError: when there is none, or more than one.
        """
        cells = [
            cell
            for cell in self.report.cells
            if check in (cell.code, cell.check) and cell.target.endswith(target) and device in ("", cell.device)
        ]
        assert len(cells) == 1, f"{len(cells)} cells of {check}: {[(cell.target, cell.device) for cell in cells]}"
        return cells[0]

    @property
    def reproduce(self) -> list[str]:
        """The commands that failures print, each once."""
        return list(dict.fromkeys(re.findall(r"^reproduce +(.*)$", self.text, re.M)))

    def shows(self, *texts: str) -> Result:
        """Require that the output contains each text.

        Raises:
            AssertionError: when one is missing.
        """
        for text in texts:
            assert text in self.output, f"{text!r} is not in:\n{self.output}"
        return self

    def lacks(self, *texts: str) -> Result:
        """Require that the output contains none of the texts.

        Raises:
            AssertionError: when one is there.
        """
        for text in texts:
            assert text not in self.output, f"{text!r} is in:\n{self.output}"
        return self

    def assert_outcomes(self, **counts: int) -> Result:
        """Require how many cells ended in each outcome; an outcome that is not named must have none.

        Write ``not_applicable`` and ``not_run`` for the outcomes of two words.

        Raises:
            AssertionError: when a count is another.
            TypeError: when there is no such outcome.
        """
        expected = {name.replace("_", " "): count for name, count in counts.items()}
        unknown = set(expected) - set(OUTCOMES)
        if unknown:
            raise TypeError(f"there is no outcome {sorted(unknown)[0]!r}; expected some of {', '.join(OUTCOMES)}")
        actual = {outcome: self.report.count(outcome) for outcome in OUTCOMES}
        assert actual == {outcome: expected.get(outcome, 0) for outcome in OUTCOMES}, self.output
        return self


@pytest.fixture(scope="session")
def _loaded_modules() -> None:
    """Load our modules and torch before pytester takes note of what is loaded.

    Pytester unloads what a run in this process imported first. A second import would create other classes, and torch
    cannot be imported twice. Nor can importlib_metadata, which dask imports: it replaces the finder of distributions of
    the standard library. Unloading it leaves neither finder, and no plugin is found any more.
    """
    importlib.import_module("torch.distributed")
    with contextlib.suppress(ImportError):
        importlib.import_module("importlib_metadata")
    for name in pytest_evalcheck.__all__:
        getattr(pytest_evalcheck, name)
    for package in (engine, integration, kinds, reports):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def _restore(snapshot: Any) -> None:
    """Unload the modules that are new, and put back those that are gone, as pytester's snapshot does.

    That one empties `sys.modules` first. What runs in between, a finaliser or another thread, may import `io` once
    more. Its errors are of another class then, and no tensor can be pickled any more.
    """
    preserved, saved = snapshot._SysModulesSnapshot__preserve, snapshot._SysModulesSnapshot__saved
    if preserved:
        saved.update((name, module) for name, module in [*sys.modules.items()] if preserved(name))
    sys.modules.update(saved)
    for name in sys.modules.keys() - saved.keys():
        if not ("torch" in saved and name.startswith("torch.")):  # some register operators, once in a process
            sys.modules.pop(name, None)


@pytest.fixture
def evalcheck_project(_loaded_modules: None, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project in a folder of its own, whose runs draw the same cases every time."""
    monkeypatch.setattr("_pytest.pytester.SysModulesSnapshot.restore", _restore)
    monkeypatch.setenv("PYTEST_ADDOPTS", "--hypothesis-seed=1")
    monkeypatch.delenv("CI", raising=False)  # there pytest prints the first lines of failures twice
    return Project(pytester)
