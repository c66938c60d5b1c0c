"""Cells over two local workers of Dask and of Ray, beside one process; and runs in which a worker is killed.

``python benchmarks/clusters.py`` prints how many times faster two workers are for cells of 100 ms and more (the whole
run, and the run less its start: from the fifth report to the last), and of how many runs with a killed worker nothing
was lost. ``--smoke`` runs a few cells once on Dask, and one run with a killed worker. ``--only`` and ``--on``: parts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WAYS = {
    "one process": [],
    "xdist": ["-n", "2"],
    "dask": ["--evalcheck-run=dask:workers=2"],
    "ray": ["--evalcheck-run=ray:workers=2"],
}
"""pytest-xdist is there to show what two processes can be worth on this machine."""
SOURCE = """
import time
import pytest_evalcheck as ec
from fixtures.gallery.metrics_plain import RunningSum
from pytest_evalcheck import strategies as es

def target(number):
    def factory(device):
        made = RunningSum()
        def compute():
            until = time.{clock}() + {seconds}
            while time.{clock}() < until:
                {wait}
            return made.compute()
        return ec.Metric(update=made.update, compute=compute, reset=made.reset)
    factory.__name__ = f"sum_{{number}}"
    return ec.metric(inputs=es.values())(factory)

{targets}
"""


def write(folder: Path, targets: int, seconds: float, *, busy: bool) -> None:
    """A file of targets, each value of which takes so long, in work or in waiting."""
    lines = "\n".join(f"sum_{number} = target({number})" for number in range(targets))
    clock, wait = ("thread_time", "sum(range(1000))") if busy else ("monotonic", f"time.sleep({seconds})")
    source = SOURCE.format(targets=lines, seconds=seconds, clock=clock, wait=wait)
    (folder / "evalcheck_slow.py").write_text(source, encoding="utf-8")


def start(folder: Path, options: list[str], report: Path) -> subprocess.Popen[str]:
    """A run of the file."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--evalcheck"]
    command += [
        "--evalcheck-device=cpu",
        "--evalcheck-effort=quick",
        "--evalcheck-select=EC201,EC202,EC203,EC204,EC205",
    ]
    command += [f"--evalcheck-report=json={report}", f"--evalcheck-report=jsonl={report}l", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)


def cells(report: Path) -> list[dict[str, Any]]:
    """The cells of a report, without their durations."""
    found = json.loads(report.read_text(encoding="utf-8"))["checks"] if report.exists() else []
    return [{name: value for name, value in cell.items() if name != "seconds"} for cell in found]


def timed(folder: Path, way: str) -> tuple[float, float, list[dict[str, Any]], float]:
    """Seconds of a run, seconds from its first cell to its last, its cells, and the median seconds of a cell."""
    report = folder / "report.json"
    for path in folder.glob("report.json*"):
        path.unlink()
    begun = time.perf_counter()
    process = start(folder, WAYS[way], report)
    lines, stamps = Path(f"{report}l"), []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.01):
            count = lines.read_bytes().count(b'"source"') if lines.exists() else 0
            stamps.extend([time.perf_counter()] * (count - len(stamps)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    text, _ = process.communicate()
    whole = time.perf_counter() - begun
    ended.set()
    watcher.join()
    if process.returncode:
        raise SystemExit(text[-3000:])
    seconds = [
        cell["seconds"] for cell in json.loads(report.read_text(encoding="utf-8"))["checks"] if cell["seconds"] > 0.05
    ]
    # The first cells of all workers count as the start: each pays for what its process imports.
    return whole, stamps[-1] - stamps[4], cells(report), statistics.median(seconds)


def times(folder: Path, rounds: int, targets: int, seconds: float, *, busy: bool) -> bool:
    """Print how many times faster two workers are; whether all gave the same cells."""
    write(folder, targets, seconds, busy=busy)
    rows: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    same, length = True, 0.0
    expected: list[dict[str, Any]] = []
    for _ in range(rounds):
        for way in WAYS:
            whole, rest, found, median = timed(folder, way)
            rows[way].append((whole, rest))
            if way == "one process":
                expected, length = found, median
            same &= found == expected or way == "xdist"  # which hands cells out in its own order
    what = "checks that compute" if busy else "checks that wait"
    print(f"{what}: {len(expected)} of {length * 1000:.0f} ms, {rounds} rounds; the same checks and order: {same}")
    print(f"{'':>14} {'whole s':>8} {'times':>6} {'less start s':>13} {'times':>6}")
    for way, pairs in rows.items():
        wholes = [one[0] / other[0] for one, other in zip(rows["one process"], pairs, strict=True)]
        rests = [one[1] / other[1] for one, other in zip(rows["one process"], pairs, strict=True)]
        whole, rest = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"{way:>14} {whole:8.1f} {statistics.median(wholes):6.2f} {rest:13.1f} {statistics.median(rests):6.2f}")
    return same


def workers(run: int) -> list[int]:
    """The processes of workers of Dask and Ray below a run."""
    parents: dict[int, int] = {}
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if line.startswith(b"ray::run_item") or b"multiprocessing.spawn" in line:
            found.append(int(folder.name))

    def descends_from_run(process: int) -> bool:
        while process > 1:
            if process == run:
                return True
            process = parents.get(process, 0)
        return False

    return [process for process in found if descends_from_run(process)]


def kills(folder: Path, library: str, runs: int, targets: int) -> int:
    """In how many runs a worker was killed in the middle, and nothing was lost."""
    write(folder, targets, 0.001, busy=False)
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    start(folder, [], report).communicate()
    expected, draw, good = cells(report), random.Random(1), 0
    for _ in range(runs):
        for path in folder.glob("report.json*"):
            path.unlink()
        process, lines = start(folder, WAYS[library], report), Path(f"{report}l")
        after = draw.randrange(1, len(expected) // 2)
        while process.poll() is None:
            if lines.exists() and lines.read_bytes().count(b'"source"') >= after:
                break
            time.sleep(0.01)
        alive = workers(process.pid)
        if alive:
            os.kill(draw.choice(alive), signal.SIGKILL)
        text, _ = process.communicate()
        lossless = bool(alive) and process.returncode == 0 and cells(report) == expected
        good += lossless
        print(f"  {library}, killed after {after} checks: {'nothing lost' if lossless else text[-1500:]}", flush=True)
    print(f"{library}: a worker killed in mid-run, nothing lost and the same checks: {good} of {runs}")
    return good


def main() -> int:
    """Print the tables; 1 where a verdict differed or a cell was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="a few checks, once")
    parser.add_argument("--only", choices=["times", "kills"])
    parser.add_argument("--on", choices=["dask", "ray"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--targets", type=int, default=30, help="five checks each; the start is shared by all")
    given = parser.parse_args()
    good = True
    for way in ("dask", "ray"):
        if way != (given.on or ("dask" if given.smoke else way)):
            del WAYS[way]
    with tempfile.TemporaryDirectory() as name:
        if given.only != "kills":
            rounds, targets = (1, 2) if given.smoke else (given.rounds, given.targets)
            for busy in (False,) if given.smoke else (False, True):
                good &= times(Path(name), rounds, targets, 0.0015, busy=busy)
        if given.only != "times":
            runs, targets = (1, 2) if given.smoke else (20, 6)
            for library in [way for way in WAYS if way in ("dask", "ray")]:
                good &= kills(Path(name), library, runs, targets) == runs
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
