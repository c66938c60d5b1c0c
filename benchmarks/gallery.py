"""Time until the planted bugs of the gallery are found, and the examples that the suite tries in a second.

    python benchmarks/gallery.py [--seeds 3] [--smoke]

For every planted bug: seconds and examples until the first violation (no shrinking), and to the screen (with it).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from hypothesis import Phase, core, settings

import pytest_evalcheck as ec
from fixtures.gallery.table import SPECIMENS, Specimen

SMOKE = ("EC101", "EC201", "EC401", "EC601")
"""Checks of several kinds, for a short run."""


def found(specimen: Specimen, *phases: Phase) -> tuple[float, int]:
    settings.register_profile("benchmark", settings(database=None, phases=phases))
    settings.load_profile("benchmark")
    started = time.perf_counter()
    cells = ec.run(specimen.bug, specimen.devices, select=specimen.code).cells  # one for each device
    assert any(cell.outcome == "failed" for cell in cells), f"{specimen.code} did not catch {specimen.bug.name}"
    return time.perf_counter() - started, sum(cell.examples for cell in cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="a run of seconds, to check that this works")
    asked = parser.parse_args()
    specimens, seeds = [one for one in SPECIMENS if not one.apart], asked.seeds
    if asked.smoke:
        specimens, seeds = [one for one in specimens if one.code in SMOKE], 1
    ec.run(specimens[0].twin, select=specimens[0].code)  # what is imported on first use is not the suite's cost
    print(f"{'check':6} {'planted bug':34} {'first violation':>16} {'examples':>9} {'screen':>9}")
    firsts, screens = [], []
    for specimen in specimens:
        quick, full, tried = [], [], []
        for seed in range(seeds):
            core.global_force_seed = seed
            seconds, examples = found(specimen, Phase.explicit, Phase.generate)
            quick.append(seconds)
            tried.append(examples)
            full.append(found(specimen, Phase.explicit, Phase.generate, Phase.shrink)[0])
        first, screen = statistics.median(quick), statistics.median(full)
        firsts.append(first)
        screens.append(screen)
        name = specimen.bug.name
        print(f"{specimen.code:6} {name:34} {first:14.3f} s {statistics.median(tried):9.0f} {screen:7.2f} s")
    core.global_force_seed = 0
    settings.load_profile("default")
    started, cells = time.perf_counter(), []
    for specimen in {specimen.twin.name: specimen for specimen in specimens}.values():
        cells += ec.run(specimen.twin, select=specimen.code if asked.smoke else "").cells
    assert all(cell.outcome != "failed" for cell in cells), "a check alarms on a correct twin"
    rate = sum(cell.examples for cell in cells) / (time.perf_counter() - started)
    first, screen = statistics.median(firsts), statistics.median(screens)
    print(f"median time to the first violation: {first:.3f} s, to the screen: {screen:.2f} s")
    print(f"examples per second over the correct twins: {rate:.0f}, in {len(cells)} checks")


if __name__ == "__main__":
    main()
