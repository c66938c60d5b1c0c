"""``--evalcheck-scripts``: what every root cause leaves behind at the end of a run."""

from __future__ import annotations

import ast
import codecs
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.integration.known.baseline import require_writable
from pytest_evalcheck.kinds.common.calling import relative
from pytest_evalcheck.reports import write_file
from pytest_evalcheck.reports.causes import causes_of
from pytest_evalcheck.reports.results import Cell, plural
from pytest_evalcheck.scripts.issue import issue
from pytest_evalcheck.scripts.producing import Made, make, name_of_test, of

INSIDE = "PYTEST_EVALCHECK_SCRIPT"
"""The environment variable of a process in which a script is tried: it writes no script and no baseline."""
_MARK = "Exit code 1: the fault is there"


@dataclass(frozen=True)
class Places:
    """The folder and the file for scripts and tests."""

    folder: Path | None = None
    tests: Path | None = None

    @classmethod
    def read(cls, config: pytest.Config) -> Places:
        """Read the places from the command line.

        Raises:
            pytest.UsageError: where nothing can be written there.
        """
        base = Path(config.invocation_params.dir)
        paths = [base / Path(text).expanduser() for text in config.getoption("evalcheck_scripts")]
        files = [path for path in paths if path.is_file() or (path.suffix and not path.is_dir())]
        folders = [path for path in paths if path not in files]
        if len(files) > 1 or len(folders) > 1:
            raise pytest.UsageError("--evalcheck-scripts is given more than once; expected one folder and one FILE.py")
        made = cls(next(iter(folders), None), next(iter(files), None))
        if hasattr(config, "workerinput"):
            return made
        try:
            _require_folder(made.folder) if made.folder else None
            _require_tests(made.tests) if made.tests else None
        except UsageError as error:
            raise pytest.UsageError(str(error)) from error
        return made

    def write(self, config: pytest.Config, cells: Sequence[Cell]) -> list[str]:
        """Make the script of every root cause, and write what comes out; returns lines for the screen."""
        if INSIDE in os.environ or not (self.folder or self.tests):
            return []
        red = ["failed", *(["known"] if config.option.runxfail else [])]
        causes = causes_of([cell for cell in cells if cell.outcome in red])
        if not causes:
            return ["no script was written: nothing failed"]
        options = ["--rootdir", str(config.rootpath), *(["-c", str(config.inipath)] if config.inipath else [])]
        options += ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly", "-q", "--evalcheck-run=in-process"]
        # A library of the project itself need not be installed: pytest may have found it by its settings.
        own = [path for path in sys.path if path and Path(path).is_relative_to(config.rootpath)]
        path = os.pathsep.join([*own, *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, INSIDE: "1", "PYTHONPATH": path}
        base = Path(config.invocation_params.dir)
        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            made = list(pool.map(lambda cause: make(cause.cells, base, options, environment), causes))
        return [*self._scripts(made), *self._tests(made)]

    def _scripts(self, made: Sequence[Made]) -> Iterator[str]:
        if self.folder is None:
            return
        good = [one for one in made if one.script]
        names: set[str] = set()
        written = 0
        for one in good:
            path = self.folder / f"{_free(name_of_test(one.cell).removeprefix('test_'), names)}.py"
            text = path.with_suffix(".md")
            if other := path if _is_foreign(path) else text if text.exists() and not path.exists() else None:
                yield f"{path} was not written: {other.name} is there, and no script of this suite"
                continue
            try:
                write_file(one.script.encode(), path)
                write_file(issue(one).encode(), text)
                written += 1
            except OSError as error:
                yield f"{path} could not be written: {error}"
        yield f"scripts: {written} of {plural(len(made), 'root cause')} in {relative(str(self.folder))}"
        for one in made:
            if not one.script:
                yield f"no script for {one.cell.code} of {one.cell.target}: {one.why}"

    def _tests(self, made: Sequence[Made]) -> Iterator[str]:
        if self.tests is None:
            return
        raw = self.tests.read_bytes() if self.tests.exists() else b""
        before = _source(raw)
        there = [node for node in ast.parse(before).body if isinstance(node, ast.FunctionDef)]
        about = {line.strip() for node in there for line in (ast.get_docstring(node) or "").splitlines()}
        names = {node.name for node in there}
        new = [one for one in made if one.test]
        added = []
        for one in (one for one in new if of(one.cell) not in about):
            usual = name_of_test(one.cell)
            added.append(one.test.replace(f"def {usual}(", f"def {_free(usual, names)}(", 1))
        text = "\n\n\n".join(part for part in (before.rstrip(), *(one.rstrip() for one in added)) if part) + "\n"
        try:
            # What is not appended stays as an editor of Windows may have written it.
            text = text.replace("\n", "\r\n") if b"\r\n" in raw else text
            mark = codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b""
            write_file(mark + text.encode(), self.tests) if added else None
        except OSError as error:
            yield f"{self.tests} could not be written: {error}"
            return
        again = f"; {len(new) - len(added)} were there" if len(new) > len(added) else ""
        yield f"tests: {len(added)} of {plural(len(made), 'root cause')} appended to {relative(str(self.tests))}{again}"
        if self.folder is None:
            for one in made:
                if not one.test:
                    yield f"no test for {one.cell.code} of {one.cell.target}: {one.why}"


def _is_foreign(path: Path) -> bool:
    return path.is_dir() or (path.exists() and _MARK not in path.read_text(encoding="utf-8", errors="replace"))


def _source(raw: bytes) -> str:
    return raw.decode("utf-8-sig").replace("\r\n", "\n")


def _free(name: str, taken: set[str]) -> str:
    new, count = name, 1
    while new in taken:
        count += 1
        new = f"{name}_{count}"
    taken.add(new)
    return new


def _require_folder(path: Path) -> None:
    problem = f"--evalcheck-scripts: {path} cannot hold scripts"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{problem}: {error.strerror}") from error
    _require_writable(path / "script.py", problem)


def _require_tests(path: Path) -> None:
    problem = f"--evalcheck-scripts: tests cannot be appended to {path}"
    if path.suffix != ".py":
        raise UsageError(f"{problem}: expected a Python file, such as {path.with_name('test_evalcheck.py').name}")
    if path.is_dir():
        raise UsageError(f"{problem}: it is a folder")
    if path.exists():
        try:
            ast.parse(_source(path.read_bytes()))
        except (SyntaxError, ValueError, OSError) as error:
            raise UsageError(f"{problem}: it is not Python source ({error})") from error
    if not path.parent.is_dir():
        raise UsageError(f"{problem}: there is no folder {path.parent}")
    _require_writable(path, problem)


def _require_writable(path: Path, problem: str) -> None:
    try:
        require_writable(path)
    except UsageError as error:
        raise UsageError(f"{problem}: {error}") from error
