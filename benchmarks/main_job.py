"""Runs of the main job that differ in one thing, for the benchmarks that compare them.

It is also a plugin of pytest in these runs: `EVALCHECK_ORDER` names the order of the cells, and with
`EVALCHECK_WITHOUT` there is no plain call and there are no canonical cases.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TARGETS = ROOT / "fixtures" / "targets"
SMOKE = ("evalcheck_torchmetrics_aggregation.py",)
"""The files of a smoke run."""


@dataclass(frozen=True)
class Job:
    """The report of a run and its cost."""

    report: Path
    wall: float
    cpu: float
    """Seconds of all its processes."""


def run(
    report: Path,
    files: Sequence[str] = (),
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Job:
    """Run the main job at quick effort and write its report.

    Raises:
        SystemExit: where it was not green, or no report was written.
    """
    command = [sys.executable, "-m", "pytest", "--evalcheck", "-q", "--evalcheck-effort=quick", "-p", "main_job"]
    command += ["-p", "no:cacheprovider", "-p", "no:randomly", f"--evalcheck-report=json={report}"]
    command += ["-m", "full or not full", *options]
    command += [str(TARGETS / name) for name in files]
    paths = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {}), "PYTHONPATH": paths}
    started = time.perf_counter()
    with report.with_suffix(".txt").open("w+", encoding="utf-8") as shown:
        process = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=shown, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        shown.seek(0)
        if process.returncode:
            print(f"{report.stem} ended with {process.returncode}:", "".join(shown.readlines()[-40:]), sep="\n")
    if not report.exists():
        raise SystemExit(f"{report.stem} wrote no report")
    return Job(report, time.perf_counter() - started, used.ru_utime + used.ru_stime)


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keep as many processors busy."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the cells in another order."""
    order = os.environ.get("EVALCHECK_ORDER", "")
    if order == "reversed":
        items.reverse()
    elif order:
        random.Random(order).shuffle(items)


def pytest_configure() -> None:
    """Leave out the plain call and the canonical cases."""
    if not os.environ.get("EVALCHECK_WITHOUT"):
        return
    from pytest_evalcheck.engine import cell_spec, runner
    from pytest_evalcheck.engine.preflight import Preflight

    runner.preflight = lambda *_: Preflight()  # type: ignore[assignment]
    cell_spec.CellSpec.canonical = property(lambda _: [])  # type: ignore[assignment,method-assign]
