"""Choice between several scripts of a failure."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_evalcheck.reports.results import Cell, Failure
from pytest_evalcheck.scripts import producing

CELL = Cell(
    target="evalcheck_a.py::a",
    kind="metric",
    check="check",
    code="EC201",
    device="cpu",
    outcome="failed",
    signature="EC201: a",
    failure=Failure(about="a", case={}, reproduce="pytest --evalcheck evalcheck_a.py"),
)
DRAWS = "import os\nprint('expected', os.urandom(8))\nraise SystemExit(1)\n"
SEEDED = "print('expected', 1)\nraise SystemExit(1)\n"


def recorded(*scripts: tuple[str, bool]) -> Callable[..., Any]:
    """Return a runner of commands, with a recorder that has written these scripts."""
    run = producing._run

    def replaced(command: Sequence[str], folder: Path, environment: dict[str, str]) -> Any:
        if "pytest_evalcheck.scripts.replay" not in command:
            return run(command, folder, environment)
        found = {"scripts": [[text, "", repeats] for text, repeats in scripts]}
        Path(command[4]).write_text(json.dumps(found), encoding="utf-8")
        return subprocess.CompletedProcess(command, 0, "", "")

    return replaced


@pytest.mark.parametrize(
    ("scripts", "taken", "why"),
    [
        (((SEEDED, True),), SEEDED, ""),
        (((SEEDED, False),), SEEDED, ""),
        (((DRAWS, False), (SEEDED, True)), SEEDED, ""),
        (((DRAWS, False),), "", "its script prints something else in every run"),
        ((("raise SystemExit(0)", True),), "", "its script ended with exit code 0, expected 1"),
        ((("raise SystemExit(0)", False), (SEEDED, True)), SEEDED, ""),
    ],
)
def test_a_script_is_taken_that_shows_the_same_in_every_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scripts: Any, taken: str, why: str
) -> None:
    monkeypatch.setattr(producing, "_run", recorded(*scripts))
    made = producing.make([CELL], tmp_path, [], {})
    assert (made.script, made.why) == (taken, why)
