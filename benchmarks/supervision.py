"""Cost of running cells in supervised processes: one job with and without, side by side, in wall and CPU seconds.

``python benchmarks/supervision.py`` runs about a hundred cheap cells in turns; ``--smoke`` a few of them once.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WAYS = {"supervised": [], "in process": ["--evalcheck-run=in-process"], "isolated": ["--evalcheck-run=isolated"]}
SOURCE = """
import pytest_evalcheck as ec
from fixtures.gallery.metrics_plain import RunningSum
from pytest_evalcheck import strategies as es

def target(number):
    def factory(device):
        made = RunningSum()
        return ec.Metric(update=made.update, compute=made.compute, reset=made.reset)
    factory.__name__ = f"sum_{{number}}"
    return ec.metric(inputs=es.values())(factory)

{targets}
"""


def run(folder: Path, options: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of one job, with its processes."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--evalcheck"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "--evalcheck-device=cpu", "--evalcheck-effort=quick", *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(done.stdout[-3000:])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - started, cpu


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a few checks, once")
    smoke = parser.parse_args().smoke
    targets, rounds = (1, 1) if smoke else (6, 5)
    ways = dict(list(WAYS.items())[:2]) if not smoke else WAYS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = "\n".join(f"sum_{number} = target({number})" for number in range(targets))
        (folder / "evalcheck_cheap.py").write_text(SOURCE.format(targets=lines), encoding="utf-8")
        seen: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, options in ways.items():
                seen[way].append(run(folder, options))
    print(f"{'cells run':>12} {'wall s':>8} {'CPU s':>8}   least of {rounds}")
    least = {way: (min(w for w, _ in rows), min(c for _, c in rows)) for way, rows in seen.items()}
    for way, (wall, cpu) in least.items():
        print(f"{way:>12} {wall:8.2f} {cpu:8.2f}")
    ratios = [a[1] / b[1] for a, b in zip(seen["supervised"], seen["in process"], strict=True)]
    print(f"CPU, supervised to in process: {statistics.median(ratios):.2f} (median of {rounds} pairs)")


if __name__ == "__main__":
    main()
