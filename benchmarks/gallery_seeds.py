"""Whether the gallery is judged alike with every seed: what tests/test_gallery.py asks with one seed, with many.

    python benchmarks/gallery_seeds.py [--kinds loop,decoder] [--seeds 2,3,4] [--effort normal] [--part 1/2] [--smoke]

Prints each planted bug that its check missed, or that another check caught as well without being named, and each
correct twin that a check took for broken: there should be none. For when a check, a strategy or a specimen changes.
`--part 1/2` takes every second specimen from the first on, for two processes at once.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from hypothesis import core

import pytest_evalcheck as ec
from fixtures.gallery.table import SPECIMENS, Specimen
from pytest_evalcheck.engine.effort import EFFORTS


def judged(specimen: Specimen, effort: str) -> Iterator[str]:
    """What is wrong with the verdicts on one planted bug."""
    cells = ec.run(specimen.bug, specimen.devices, select=specimen.code, effort=effort, timeout=300).cells
    cell = next((one for one in cells if one.outcome == "broken"), cells[0])
    if cell.outcome != "broken" or cell.cause:
        yield f"missed: {cell.outcome} {cell.reason}"
    named = ",".join([specimen.code, *specimen.breaks_too])
    for other in ec.run(specimen.bug, specimen.devices, ignore=named, effort=effort, timeout=300).of("broken"):
        yield f"caught by {other.code} as well: {other.reason} {other.failure and other.failure.case}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(sorted({one.bug.kind for one in SPECIMENS})))
    parser.add_argument("--seeds", default="2,3,4")
    parser.add_argument("--effort", default="normal", choices=EFFORTS)
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--smoke", action="store_true", help="a run of seconds, to check that this works")
    asked = parser.parse_args()
    if asked.smoke:
        asked.kinds, asked.seeds, asked.effort = "metric", "2", "quick"
    first, parts = map(int, asked.part.split("/"))
    kinds = asked.kinds.split(",")
    chosen = [one for one in SPECIMENS if one.bug.kind in kinds and not one.apart][first - 1 :: parts]
    if asked.smoke:
        chosen = chosen[:2]
    twins = {one.twin.name: one.twin for one in chosen}
    warnings.simplefilter("ignore")
    for seed in map(int, asked.seeds.split(",")):
        core.global_force_seed = seed
        found = [f"{one.code}-{one.bug.name} {wrong}" for one in chosen for wrong in judged(one, asked.effort)]
        for twin in twins.values():
            broken = ec.run(twin, "auto", effort=asked.effort, timeout=300).of("broken")
            found += [
                f"{twin.name} is correct, but {cell.code}: {cell.reason} {cell.failure and cell.failure.case}"
                for cell in broken
            ]
        for line in found:
            print(f"  {line}")
        print(f"seed {seed}: {len(chosen)} bugs, {len(twins)} twins, {len(found)} judged otherwise", flush=True)


if __name__ == "__main__":
    main()
