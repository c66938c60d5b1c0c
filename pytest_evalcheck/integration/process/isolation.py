"""Cells in processes of their own: for targets that kill theirs, or hang where no alarm reaches."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from pytest_evalcheck.engine.cell_spec import CellSpec
from pytest_evalcheck.engine.runner import CellRunner
from pytest_evalcheck.expectations.failures import TargetError
from pytest_evalcheck.integration.options import Options
from pytest_evalcheck.integration.process import run_in_child
from pytest_evalcheck.reports.json import load
from pytest_evalcheck.reports.results import Cell

INSIDE = "PYTEST_EVALCHECK_ISOLATED"
"""The environment variable that is set in a process of one cell."""
_GRACE = 30.0
"""Seconds that a process may take beyond the limit of its cell: it imports torch and the target first."""


def should_isolate(spec: CellSpec, options: Options) -> bool:
    """Whether this cell goes into a process of its own, and is not in one already."""
    if run_in_child.supervised:  # the supervisor has forked this process for it
        return False
    return (options.run.way == "isolated" or spec.target.isolated) and INSIDE not in os.environ


def isolated_cell(runner: CellRunner, item: pytest.Item, options: Options) -> Cell:
    """Run one cell as pytest of its own and read its report; a process that died or hung is the verdict."""
    started = time.monotonic()
    limit = runner.spec.target.timeout or runner.spec.timeout
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "cell.json"
        process = subprocess.Popen(
            [*_command(item, options), f"--evalcheck-report=json={report}"],
            cwd=item.config.invocation_params.dir,
            env={**os.environ, INSIDE: "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(timeout=limit + _GRACE if limit else None)
        except subprocess.TimeoutExpired:
            _kill(process)
            return runner.untestable(
                TargetError(f"the check did not end within {limit:g} seconds", cause="timeout"), started
            )
        except BaseException:
            _kill(process)
            raise
        if report.exists():
            cells = load(report).cells
            if len(cells) == 1:
                return cells[0]
        return runner.untestable(
            TargetError("the process of the check died", actual=_ending(process.returncode), cause="died"), started
        )


def _command(item: pytest.Item, options: Options) -> list[str]:
    config = item.config
    path, _, rest = item.nodeid.partition("::")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "pytest_evalcheck",
        "--evalcheck",
        f"{config.rootpath / path}::{rest}",
    ]
    command += [
        "--rootdir",
        str(config.rootpath),
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "no:randomly",
        "-q",
    ]
    if config.inipath:
        command += ["-c", str(config.inipath)]
    if config.option.markexpr:
        command += ["-m", config.option.markexpr]
    command += [f"--evalcheck-effort={options.effort_name}", f"--evalcheck-device={','.join(options.devices)}"]
    command += [f"--evalcheck-timeout={options.timeout or 0}"]
    command += [f"--evalcheck-{name}" for name in ("accept", "prune") if getattr(options, name)]
    replay = config.getoption("evalcheck_replay")
    return [*command, f"--evalcheck-replay={replay}"] if replay else command


def _kill(process: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _ending(code: int) -> str:
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"exit code {code}, without a report"
