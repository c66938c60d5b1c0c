"""Cost of all checks of a loop, in plain evaluations of the same data.

    python benchmarks/loop_battery.py [--effort quick,normal] [--samples 64] [--smoke]

For each target: the processor time of all its cells, divided by that of one plain evaluation of 64 samples (the median
of nine, after one to warm up). Processor time, since a busy machine stretches the wall clock; what workers of a data
loader take is theirs and not counted.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
sys.path.insert(0, str(Path(__file__).parent.parent / "fixtures" / "targets"))

import evalcheck_loops_plain
import evalcheck_variants_digits
import evalcheck_variants_transformers
from hypothesis import settings

import pytest_evalcheck as ec
from pytest_evalcheck.kinds.loop.cases import unselected
from pytest_evalcheck.kinds.loop.record import LoopData

TARGETS = {
    "the tutorial's loop": evalcheck_loops_plain.of_the_tutorial,
    "digits, 8 variants": evalcheck_variants_digits.network,
    "a tiny BERT, 7 variants": evalcheck_variants_transformers.bert,
}


def once(target: Any, samples: int) -> float:
    """The processor seconds of one plain evaluation."""
    rows = unselected(target.inputs, 4 * samples)
    data = LoopData((rows * samples)[:samples], target.inputs.collate)
    evaluate = target.factory(*["cpu"] * len(target.arguments)).evaluate
    evaluate(data)
    taken = []
    for _ in range(9):
        started = time.process_time()
        evaluate(data)
        taken.append(time.process_time() - started)
    return median(taken)


def battery(target: Any, effort: str) -> tuple[float, ec.Report]:
    started = time.process_time()
    report = ec.run(target, effort=effort, timeout=None)
    return time.process_time() - started, report


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--effort", default="quick,normal")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--smoke", action="store_true", help="a run of seconds, to check that this works")
    asked = parser.parse_args()
    targets = TARGETS
    if asked.smoke:
        asked.effort, asked.samples, targets = "quick", 8, dict(list(TARGETS.items())[:1])
    settings.register_profile("benchmark", database=None, derandomize=True)
    settings.load_profile("benchmark")
    print(
        f"| target | one evaluation of {asked.samples} | effort | battery | in evaluations | tried | broken | EC52x |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, target in targets.items():
        plain = once(target, asked.samples)
        for effort in asked.effort.split(","):
            seconds, report = battery(target, effort)
            tried = sum(cell.executed for cell in report.cells)
            assert tried, f"no check of {name} ran"
            share = sum(cell.seconds for cell in report.cells if cell.code in ("EC520", "EC521"))
            share /= max(1e-9, sum(cell.seconds for cell in report.cells))
            print(
                f"| {name} | {1000 * plain:.1f} ms | {effort} | {seconds:.1f} s | {seconds / plain:,.0f} "
                f"| {tried} of {len(report.cells)} | {report.count('failed')} | {share:.0%} of the time |",
                flush=True,
            )


if __name__ == "__main__":
    main()
