"""A plan, on paper, for a lab that checks all it serves: architectures x caches x devices x dtypes of one release.

    python benchmarks/lab_plan.py [--every 12] [--effort normal] [--cores 64] [--price 0.04] [--smoke]

Measured are the CPU seconds of EC301 to EC314 for every n-th architecture of the sweep, with every cache, device and
dtype; a combination that the architecture does not take costs nothing. All architectures are assumed to cost what these
cost in the mean; the range is two standard errors of it. Devices are simulated. ``--price`` is that of an hour of one
core. Every core also starts one process, which imports torch and transformers.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "fixtures" / "targets")]

from _decoder_names import HELD, SWEPT, WITHOUT_POSITIONS  # noqa: E402
from _decoders import PROMPTS, shared  # noqa: E402
from hypothesis import core  # noqa: E402

import pytest_evalcheck as ec  # noqa: E402
from pytest_evalcheck.adapters.transformers.decoder import decoder  # noqa: E402

CACHES = ("dynamic", "plain", "static")
DEVICES = ("cpu", "sim:cuda", "sim:mps")
DTYPES = ("float64", "float32", "bfloat16")
LACKING = {("sim:mps", "float64")}
"""Dtypes that a device does not have."""


def cost(name: str, cache: str, device: str, dtype: str, effort: str) -> tuple[float, int] | None:
    """CPU seconds and cells of one combination; None where the architecture does not take it."""
    import torch

    sides = () if name in WITHOUT_POSITIONS else ("left",)

    def factory(device: Any) -> ec.Decoder:
        model = shared(name).to(device=device, dtype=getattr(torch, dtype))
        return decoder(model, "held" if name in HELD else cache, length=16, generates=False, sides=sides)

    factory.__name__ = factory.__qualname__ = f"{name}_{cache}"

    target = ec.decoder(inputs=PROMPTS, devices=("cpu", "cuda", "mps"))(factory)
    started = time.process_time()
    report = ec.run(target, device, effort=effort, timeout=None)
    seconds = time.process_time() - started
    tried = len(report.of("passed")) + len(report.of("failed"))
    errors = [cell for cell in report.of("failed") if cell.cause == "setup"]
    return None if not tried or len(errors) == tried or report.of("not run") else (seconds, tried)


def start_seconds() -> float:
    """CPU seconds until a process has imported what cells need."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import torch, transformers, pytest_evalcheck, pytest"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print what was measured, and the plan."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=12)
    parser.add_argument("--effort", default="normal", choices=("quick", "normal", "thorough"))
    parser.add_argument("--cores", type=int, default=64, help="of one machine")
    parser.add_argument("--price", type=float, default=0.04, help="of an hour of one core, in dollars")
    parser.add_argument("--smoke", action="store_true", help="one architecture, quickly, on one device")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    core.global_force_seed = 1
    names, devices, effort = SWEPT[:: asked.every], DEVICES, asked.effort
    if asked.smoke:
        names, devices, effort = ("llama",), DEVICES[:1], "quick"
    measured: dict[tuple[str, str, str], list[tuple[float, int]]] = defaultdict(list)
    combinations = [(c, d, t) for c in CACHES for d in devices for t in DTYPES if (d, t) not in LACKING]
    each = []
    for name in names:
        total = 0.0
        shared(name)
        for cache, device, dtype in combinations:
            found = cost(name, cache, device, dtype, effort)
            if found is not None:
                measured[cache, device, dtype].append(found)
                total += found[0]
        each.append(total)
        shared.cache_clear()
    print(f"{len(names)} of {len(SWEPT)} architectures at {effort} effort: {', '.join(names)}")
    print(f"{'cache':<10} {'device':<9} {'dtype':<9} {'taken by':>8} {'CPU s':>7} {'cells':>6}")
    for key in combinations:
        costs = measured[key]
        mean = statistics.mean(one[0] for one in costs) if costs else math.nan
        print(f"{key[0]:<10} {key[1]:<9} {key[2]:<9} {len(costs):8} {mean:7.2f} {sum(one[1] for one in costs):6}")
    plan(each, asked.cores, asked.price)


def plan(each: list[float], cores: int, price: float) -> None:
    """Print hours, dollars and machines, from the CPU seconds of each architecture."""
    mean = statistics.mean(each)
    error = 2 * statistics.stdev(each) / math.sqrt(len(each)) if len(each) > 1 else 0.0
    hours = mean * len(SWEPT) / 3600
    start = start_seconds()
    machines = math.ceil(hours * 3600 / (cores * (3600 - start)))
    print(f"an architecture: {mean:.0f} s of CPU (+- {error:.0f})")
    print(f"all {len(SWEPT)}: {hours:.2f} CPU hours (+- {error * len(SWEPT) / 3600:.2f}), {hours * price:.2f} dollars")
    print(f"start-up: {start:.1f} s of CPU a core")
    print(f"within one hour: {machines} machine{'s' * (machines > 1)} of {cores} cores", end="; ")
    print(f"on one of them: {60 * hours / cores:.1f} min and the start-up")


if __name__ == "__main__":
    main()
