"""Cost of the decoder checks for one architecture, and the number of planted bugs that they catch.

    python benchmarks/decoder_battery.py [--every 1] [--effort quick] [--smoke]

The battery is EC301 to EC313 over the targets of the sweep, each an architecture of transformers with a tiny model, in
this one process. What is imported when a target is first built is not its cost, so EC301 is tried once before. Figures
are processor time, which other programs on the machine do not change much. `--every 8` takes every eighth target.
Goal: a median below 2 s.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import warnings
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "fixtures" / "targets"))

import evalcheck_decoders_sweep as sweep
from hypothesis import core

import pytest_evalcheck as ec
from fixtures.gallery.table import SPECIMENS


def cost(target: ec.Target, effort: str) -> float:
    """The processor seconds of all promises of one target."""
    ec.run(target, select="EC301", effort="quick", timeout=None)
    started = time.process_time()
    report = ec.run(target, effort=effort, timeout=None)
    seconds = time.process_time() - started
    for cell in report.of("failed"):
        print(f"  {target.name}: {cell.code} {cell.reason}")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--effort", default="quick", choices=("quick", "normal"))
    parser.add_argument("--smoke", action="store_true", help="a run of seconds, to check that this works")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    core.global_force_seed = 1
    targets = [one for one in vars(sweep).values() if isinstance(one, ec.Target)][:: asked.every]
    bugs = [one for one in SPECIMENS if one.bug.kind == "decoder"]
    if asked.smoke:
        targets, bugs = targets[:1], bugs[:2]
    costs = {target.name: cost(target, asked.effort) for target in targets}
    print(f"{len(costs)} targets at {asked.effort} effort: median {statistics.median(costs.values()):.2f} s, ", end="")
    print(f"mean {statistics.mean(costs.values()):.2f} s; dearest ", end="")
    print(", ".join(f"{name} {costs[name]:.1f} s" for name in sorted(costs, key=costs.__getitem__)[:-6:-1]))
    caught = [one for one in bugs if ec.run(one.bug, select=one.code, effort=asked.effort).of("failed")]
    print(f"red for {len(caught)} of {len(bugs)} planted bugs")
    assert len(caught) == len(bugs), "a planted bug was not caught"


if __name__ == "__main__":
    main()
