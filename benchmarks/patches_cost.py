"""Compare the CPU time of a plain call with each patch and without, in turns in one process.

    python benchmarks/patches_cost.py [LIBRARY ...] [--only ID ...] [--seconds 1] [--smoke]

A plain call makes the object of a target of fixtures/targets that names a mended fault and evaluates some samples in
one batch. Prints the median of the ratios of the rounds, for the target of each patch where it is greatest, and ends
with 1 where one is above 1.1.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
ROOT = Path(__file__).parent.parent
TARGETS = ROOT / "fixtures" / "targets"
sys.path[:0] = [str(ROOT), str(TARGETS)]

from benchmarks.patches import chosen_libraries, files_about  # noqa: E402
from pytest_evalcheck import Target  # noqa: E402
from pytest_evalcheck.engine.factory import TargetFactory  # noqa: E402
from pytest_evalcheck.expectations.comparison import Raised  # noqa: E402
from pytest_evalcheck.expectations.failures import NotImportable, TargetError  # noqa: E402
from pytest_evalcheck.fixes import patched  # noqa: E402
from pytest_evalcheck.fixes.patches import applying  # noqa: E402
from pytest_evalcheck.fixes.patches.patch import Library, Patch  # noqa: E402
from pytest_evalcheck.kinds.registry import kind_of  # noqa: E402

MOST = 1.1
SIZES = {"metric": (256, 32, 8), "scorer": (64, 8), "wrapper": (8, 4), "decoder": (4, 2), "loop": (8, 4)}
"""By kind: numbers of samples, of which the first that is accepted is taken."""
TARGETS_OF_ONE = 2
_ROUNDS = (5, 200)


def faults_of(target: Target) -> set[str]:
    """Return the ids of upstream faults that a target names."""
    entries = target.known_failures.values()
    listed = [one for entry in entries for one in (entry if isinstance(entry, (tuple, list)) else (entry,))]
    return {one.upstream for one in listed if one.upstream}


def targets(ids: set[str]) -> Iterator[Target]:
    """Import the files about these ids, and give the targets that name one; a file that lacks a package has none."""
    for path in files_about(ids, "evalcheck_*.py"):
        try:
            module = importlib.import_module(path.stem)
        except ImportError:
            continue
        yield from (one for one in vars(module).values() if isinstance(one, Target) and faults_of(one) & ids)


def subject_of(target: Target) -> Any:
    """Make the subject of a target on the CPU."""
    factory = TargetFactory(target)
    arguments: Mapping[str, Any] = {name: "cpu" for name in target.arguments if name == "device"}
    return kind_of(target.kind).subject(
        build=lambda **options: factory.record({**arguments, **options}),
        inputs=target.inputs,
        device="cpu",
        reference=None,
        tolerance=target.tolerance,
        on_device=None,
        **target.options,
    )


def ratio(library: Library, patch: Patch, target: Target, seconds: float) -> float | None:
    """Return the median ratio of the time with the patch and without; None where a plain call gives no value."""
    subject = subject_of(target)
    for size in SIZES[target.kind]:
        try:
            rows = target.inputs.fixed(max(size, target.inputs.min_samples))
        except ValueError:  # there are not so many different samples
            continue
        try:
            if not isinstance(subject.plain_result(rows), Raised):
                break
        except (TargetError, NotImportable):  # its package is not installed
            return None
    else:
        return None

    def timed() -> float:
        subject.plain_result(rows)  # the interpreter specialises code anew that was exchanged
        started = time.process_time()  # what else runs on the machine takes no part in it
        subject.plain_result(rows)
        return time.process_time() - started

    timed()
    once = timed()
    rounds = min(_ROUNDS[1], max(_ROUNDS[0], int(seconds / 2 / max(once, 1e-6))))
    ratios = []
    for number in range(rounds):
        if number % 2:  # the second of two calls finds warm caches
            with patched(library.name, only=[patch.id]):
                after = timed()
            before = timed()
        else:
            before = timed()
            with patched(library.name, only=[patch.id]):
                after = timed()
        ratios.append(after / before)
    return statistics.median(ratios)


def main() -> int:
    """Print the ratio of every patch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", nargs="*")
    parser.add_argument("--only", nargs="+", default=[], metavar="ID", help="patches, by their ids")
    parser.add_argument("--seconds", type=float, default=1.0, help="the time of the rounds of one target")
    parser.add_argument("--smoke", action="store_true", help="MONAI alone, a few rounds")
    parser.add_argument("--targets", nargs="+", metavar="ID", help="print the targets of sweeps that name these faults")
    given = parser.parse_args()
    if given.targets:
        marked = (one for one in targets({*given.targets}) if any(mark.name == "sweep" for mark in one.pytestmark))
        print("\n".join(f"{Path(one.file).relative_to(ROOT)}::{one.name}" for one in marked))
        return 0
    if given.smoke:
        given.library, given.seconds = ["monai"], 0.1
    warnings.simplefilter("ignore")
    libraries = [one for one in chosen_libraries(parser, given) if not applying.why_not_tested(one)]
    found = [*targets({fault for library in libraries for patch in library.patches for fault in patch.mends})]
    greatest: dict[str, float] = {}
    for library in libraries:
        for patch in (one for one in library.patches if not given.only or one.id in given.only):
            ratios: list[tuple[float, str]] = []
            for target in found:
                if len(ratios) < TARGETS_OF_ONE and faults_of(target) & {*patch.mends}:
                    value = ratio(library, patch, target, given.seconds)
                    ratios += [] if value is None else [(value, f"{Path(target.file).name}::{target.name}")]
            if ratios:
                greatest[patch.id] = max(ratios)[0]
                print(f"  {max(ratios)[0]:5.2f}  {patch.id}  {max(ratios)[1]}", flush=True)
            else:
                print(f"      -  {patch.id}  no target names it", flush=True)
    above = [name for name, value in greatest.items() if value > MOST]
    if greatest:
        middle, most = statistics.median(greatest.values()), max(greatest.values())
        print(f"{len(greatest)} patches: median {middle:.3f}, greatest {most:.2f}, {len(above)} above {MOST}")
    return 1 if above and not given.smoke else 0


if __name__ == "__main__":
    raise SystemExit(main())
