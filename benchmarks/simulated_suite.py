"""What the checks cost on a simulated device beside the CPU: seconds of processor time, cell by cell.

    python benchmarks/simulated_suite.py [--device sim:mps] [--effort quick] [--smoke] [FILE ...]

Without files it takes those of one metric family and of one kind of model. Every file is a process of its own, in which
each check is tried on the CPU and on the device, one after the other; the checks that are about devices are left out,
as the CPU has none of them. A pair counts where both were tried with as many cases; the first pair of every target is
left out, as it imports the library. The goal is a ratio under 2. What is kept on the CPU alone is listed.

`--smoke` tries two checks of one file, in seconds, to see that the benchmark works.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TARGETS = Path(__file__).parents[1] / "fixtures" / "targets"
USUAL = ("evalcheck_torchmetrics_multiclass.py", "evalcheck_transformers_encoder.py")
SMOKE, SMOKE_CHECKS = "evalcheck_torchmetrics_aggregation.py", "EC201,EC202"
TRIED = ("kept", "known", "broken")


class Times:
    """Seconds of processor time for each test of a run, by its id."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        started = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid.rpartition("/")[2]] = time.process_time() - started


def run(file: str, device: str, effort: str, report: str, select: str = "") -> None:
    """Try a file on both devices; writes the cells with their processor time."""
    times = Times()
    pytest.main(
        [
            *("--evalcheck", file, f"--evalcheck-device=cpu,{device}", f"--evalcheck-effort={effort}"),
            *("--evalcheck-ignore=EC6", "-m", "not distributed and not sweep", f"--evalcheck-report=json={report}"),
            # In the process that counts the seconds: a supervised cell runs in another one.
            *("-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--evalcheck-in-process"),
            *([f"--evalcheck-select={select}"] if select else []),
        ],
        plugins=[times],
    )
    cells = json.loads(Path(report).read_text())["cells"]
    for cell in cells:
        cell["processor"] = times.seconds.get(f"{_short(cell)}::{cell['check']}[{cell['device']}]")
    Path(report).write_text(json.dumps(cells))


def _short(cell: dict[str, Any]) -> str:
    return str(cell["target"]).rpartition("/")[2]


def pairs(cells: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The cells of one target and check: on the CPU, and on the device."""
    on_cpu = {(cell["target"], cell["code"]): cell for cell in cells if cell["device"] == "cpu"}
    others = [cell for cell in cells if cell["device"] != "cpu"]
    return [(on_cpu[key], cell) for cell in others if (key := (cell["target"], cell["code"])) in on_cpu]


def counted(found: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[tuple[float, float]]:
    """The seconds of those pairs that can be compared."""
    seen, times = set(), []
    for here, there in found:
        first = here["target"] not in seen
        seen.add(here["target"])
        tried = here["outcome"] in TRIED and there["outcome"] == here["outcome"]
        if not first and tried and here["examples"] == there["examples"] and here["processor"]:
            times.append((here["processor"], there["processor"]))
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
    whole: list[tuple[float, float]] = []
    odd: list[str] = []
    print(f"{'seconds of processor time':46}{'cells':>6}{'cpu':>9}{given.device:>10}{'ratio':>8}")
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
            found = pairs(json.loads(Path(report).read_text()))
        times = counted(found)
        if not times:
            sys.exit(f"{file}: no cell was tried on both devices")
        whole += times
        odd += [
            f"  {_short(there)} {there['code']}: {there['reason']}"
            for here, there in found
            if there["outcome"] == "broken" and here["outcome"] != "broken"
        ]
        _row(Path(file).stem, times)
    _row("all", whole)
    print(f"broken on {given.device} alone:", *(odd or ["nothing"]), sep="\n")


def _row(name: str, times: list[tuple[float, float]]) -> None:
    here, there = (sum(side) for side in zip(*times, strict=True)) if times else (0.0, 0.0)
    print(f"{name:46}{len(times):6}{here:9.1f}{there:10.1f}{there / here if here else float('nan'):8.2f}")


if __name__ == "__main__":
    main()
