"""Make the script of a failure: its replay is logged, and the script is run."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_evalcheck import upstream
from pytest_evalcheck.reports.results import Cell

_SECONDS = 180.0
"""For one replay, and for one run of a script: both import the library and torch."""


@dataclass(frozen=True)
class Made:
    """The script of a failure, or why there is none."""

    cell: Cell
    script: str = ""
    test: str = ""
    output: str = ""
    """The output of the script."""
    why: str = ""


def make(cells: Sequence[Cell], folder: Path, options: Sequence[str], environment: dict[str, str]) -> Made:
    """The script of the first of these cells, all of one root cause, that comes out.

    ``folder`` is where their commands are meant, ``options`` is what pytest needs beside them.
    """
    tried = []
    for cell in cells[:_TRIED]:
        made = _make_script(cell, folder, options, environment)
        if made.script:
            return made
        tried.append(made)
    return tried[0]


_TRIED = 3


def _make_script(cell: Cell, folder: Path, options: Sequence[str], environment: dict[str, str]) -> Made:
    failure = cell.failure
    if failure is None or failure.case is None or not cell.signature or failure.untestable:
        return Made(cell, why="no case of the check failed: the target could not be tried")
    if cell.device.partition(":")[0] != "cpu":
        return Made(cell, why=f"it was found on {cell.device}, and a script runs on the CPU")
    command = shlex.split(failure.reproduce)
    if command[:1] != ["pytest"]:
        return Made(cell, why=f"it is not replayed by a command: {failure.reproduce}")
    # A script of a loop defines its record; any other first tries to do without that.
    made = Made(cell)
    for whole in (False, True) if cell.kind != "loop" else (True,):
        other = _replayed(cell, command[1:], folder, options, environment, whole=whole)
        if other.script:
            return other
        made = made if made.why else other
    return made


def _replayed(
    cell: Cell,
    command: Sequence[str],
    folder: Path,
    options: Sequence[str],
    environment: dict[str, str],
    *,
    whole: bool,
) -> Made:
    with tempfile.TemporaryDirectory() as temporary:
        wanted, out = Path(temporary) / "wanted.json", Path(temporary) / "out.json"
        asked: dict[str, Any] = {
            "signature": cell.signature,
            "title": title(cell),
            "name": name_of_test(cell),
            "kind": cell.kind,
        }
        asked |= {"of": of(cell), "upstream": cell.upstream, "whole": whole}
        wanted.write_text(json.dumps(asked), encoding="utf-8")
        recorder = [sys.executable, "-m", "pytest_evalcheck.scripts.replay", str(wanted), str(out)]
        ended = _run([*recorder, *command, *options], folder, environment)
        if not out.exists():
            return Made(cell, why=f"its replay did not end: {_last_line(ended)}")
        found = json.loads(out.read_text(encoding="utf-8"))
        if "why" in found:
            return Made(cell, why=found["why"])
        why = "its script prints something else in every run"
        for script, test, repeats in found["scripts"]:
            path = Path(temporary) / "script.py"
            path.write_text(script, encoding="utf-8")
            ended = _run([sys.executable, str(path)], folder, environment)
            if ended.returncode == 1 and ended.stdout.startswith("expected"):
                # Two models with other weights differ without any fault: what is drawn must not decide.
                if repeats or _run([sys.executable, str(path)], folder, environment).stdout == ended.stdout:
                    return Made(cell, script, test, ended.stdout.strip())
                continue
            seen = _last_line(ended)
            why = f"its script ended with exit code {ended.returncode}, expected 1" + (f": {seen}" if seen else "")
        return Made(cell, why=why)


def _run(command: Sequence[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, -9, "", f"no end within {_SECONDS:g} seconds")


def _last_line(ended: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in (ended.stderr or ended.stdout).strip().splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else ""


def title(cell: Cell) -> list[str]:
    """The docstring of a script: the property, and the versions in which it fails."""
    failure = cell.failure
    assert failure is not None
    lines = [failure.statement, "", failure.about]
    lines += [f"    expected  {failure.expected}", f"    actual    {failure.actual}"] if failure.expected else []
    return [*lines, "", f"Seen with {', '.join(versions(cell))}."]


def of(cell: Cell) -> str:
    """The line of a regression test that says what it is about."""
    return f"{cell.code} of {cell.target}"


def versions(cell: Cell) -> list[str]:
    """The releases of the library under test, of torch and of Python."""
    package = cell.class_name.partition(".")[0]
    names = [upstream.distribution(package), "torch"] if package else [*cell.requires, "torch"]
    found = []
    for name in dict.fromkeys(names):
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return [*found, f"Python {platform.python_version()}"]


def name_of_test(cell: Cell) -> str:
    """A name that says what failed where: ``test_ec219_root_mean_squared_error``."""
    target = cell.target.rpartition("::")[2]
    return re.sub(r"\W", "_", f"test_{cell.code.lower()}_{target}")
