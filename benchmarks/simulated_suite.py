"""Cost of the checks on a simulated device beside the CPU: seconds of processor time, cell by cell.

    python benchmarks/simulated_suite.py [--device sim:mps] [--effort quick] [--smoke] [FILE ...]

Without files it takes those of one metric family and of one kind of model. Every file is a process of its own, in which
each check is tried on the CPU and on the device, one after the other, and then on the CPU once more inside two modes of
torch that do nothing: a part of what a simulation costs is torch's, which calls a mode of Python for every operator.
The checks that are about devices are left out, as the CPU has none of them. A cell counts where all three were tried
with as many cases; the first of every target is left out, as it imports the library. The goal is a ratio under 1.6.
What is kept on the CPU alone is listed.

`--smoke` tries two checks of one file, in seconds, to see that the benchmark works.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from simulated_cost import empty_modes  # noqa: E402

TARGETS = ROOT / "fixtures" / "targets"
USUAL = ("evalcheck_torchmetrics_multiclass.py", "evalcheck_transformers_encoder.py")
SMOKE, SMOKE_CHECKS = "evalcheck_torchmetrics_aggregation.py", "EC201,EC202"
TRIED = ("passed", "known", "failed")
EMPTY = "empty modes"


class Times:
    """Seconds of processor time for each test of a run, by its id; each runs inside such a context."""

    def __init__(self, context: Callable[[], contextlib.AbstractContextManager[Any]]) -> None:
        self.seconds: dict[str, float] = {}
        self.context = context

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        started = time.process_time()
        try:
            with self.context():
                return (yield)
        finally:
            self.seconds[item.nodeid.rpartition("/")[2]] = time.process_time() - started


def run(file: str, device: str, effort: str, report: str, select: str = "") -> None:
    """Try a file on the CPU and on the device, and inside empty modes; writes the cells with their processor time."""
    cells = _tried(file, f"cpu,{device}", contextlib.nullcontext, effort, report, select)
    inside = _tried(file, "cpu", empty_modes, effort, report, select)
    Path(report).write_text(json.dumps(cells + [{**cell, "device": EMPTY} for cell in inside]))


def _tried(
    file: str,
    devices: str,
    context: Callable[[], contextlib.AbstractContextManager[Any]],
    effort: str,
    report: str,
    select: str,
) -> list[dict[str, Any]]:
    times = Times(context)
    pytest.main(
        [
            *("--evalcheck", file, f"--evalcheck-device={devices}", f"--evalcheck-effort={effort}"),
            *("--evalcheck-ignore=EC6", "-m", "not distributed and not sweep", f"--evalcheck-report=json={report}"),
            # In the process that counts the seconds: a supervised cell runs in another one.
            *("-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--evalcheck-run=in-process"),
            # The plugin is imported before pytest starts, which matters to assertions of its own only.
            *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
            *([f"--evalcheck-select={select}"] if select else []),
        ],
        plugins=[times],
    )
    cells: list[dict[str, Any]] = json.loads(Path(report).read_text())["checks"]
    for cell in cells:
        cell["processor"] = times.seconds.get(f"{_short(cell)}::{cell['check']}[{cell['device']}]")
    return cells


def _short(cell: dict[str, Any]) -> str:
    return str(cell["target"]).rpartition("/")[2]


def comparable_cells(cells: list[dict[str, Any]]) -> list[tuple[dict[str, Any], ...]]:
    """The cells of one target and check: on the CPU, inside empty modes, and on the device."""
    by_key: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for cell in cells:
        place = cell["device"] if cell["device"] in ("cpu", EMPTY) else "there"
        by_key.setdefault((cell["target"], cell["code"]), {})[place] = cell
    return [(found["cpu"], found[EMPTY], found["there"]) for found in by_key.values() if len(found) == 3]


def counted(found: list[tuple[dict[str, Any], ...]]) -> list[tuple[float, ...]]:
    """The seconds of those cells that can be compared."""
    seen, times = set(), []
    for cells in found:
        first = cells[0]["target"] not in seen
        seen.add(cells[0]["target"])
        tried = cells[0]["outcome"] in TRIED and len({(cell["outcome"], cell["examples"]) for cell in cells}) == 1
        if not first and tried and all(cell["processor"] for cell in cells):
            times.append(tuple(cell["processor"] for cell in cells))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--device", default="sim:mps")
    parser.add_argument("--effort", default="quick")
    parser.add_argument("--smoke", action="store_true", help="try two checks of one file")
    parser.add_argument("--into", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.into:
        run(given.files[0], given.device, given.effort, given.into, SMOKE_CHECKS if given.smoke else "")
        return
    whole: list[tuple[float, ...]] = []
    odd: list[str] = []
    columns = f"{'cpu':>9}{EMPTY:>13}{'ratio':>8}{given.device:>10}{'ratio':>8}"
    print(f"{'seconds of processor time':46}{'cells':>6}{columns}")
    for file in given.files or [str(TARGETS / name) for name in ([SMOKE] if given.smoke else USUAL)]:
        with tempfile.TemporaryDirectory() as folder:
            report = str(Path(folder) / "cells.json")
            command = [sys.executable, __file__, file, "--device", given.device, "--effort", given.effort]
            command += ["--smoke"] if given.smoke else []
            done = subprocess.run(
                [*command, "--into", report],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
            )
            if not Path(report).exists():
                sys.exit(f"{file} could not be tried:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
            found = comparable_cells(json.loads(Path(report).read_text()))
        times = counted(found)
        if not times:
            print(f"{Path(file).stem}: no check was tried on both devices with as many cases", flush=True)
            continue
        whole += times
        odd += [
            f"  {_short(there)} {there['code']}: {there['reason']}"
            for here, _, there in found
            if there["outcome"] == "failed" and here["outcome"] != "failed"
        ]
        _row(Path(file).stem, times)
    if not whole:
        sys.exit("nothing was compared")
    _row("all", whole)
    print(f"broken on {given.device} alone:", *(odd or ["nothing"]), sep="\n")


def _row(name: str, times: list[tuple[float, ...]]) -> None:
    here, inside, there = (sum(side) for side in zip(*times, strict=True))
    ratios = f"{here:9.1f}{inside:13.1f}{inside / here:8.2f}{there:10.1f}{there / here:8.2f}"
    print(f"{name:46}{len(times):6}{ratios}", flush=True)


if __name__ == "__main__":
    main()
