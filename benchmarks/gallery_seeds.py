"""Judgements of the gallery with many seeds: tests/test_gallery.py asks the same with one seed.

    python benchmarks/gallery_seeds.py [--kinds loop,decoder] [--seeds 2,3,4] [--effort normal] [--part 1/2] [--smoke]
    python benchmarks/gallery_seeds.py --finds-only --effort quick --seeds 0-199

Prints each planted bug that its check missed, or that another check caught as well without being named, and each
correct twin that a check took for broken: there should be none. For when a check, a strategy or a specimen changes.
`--part 1/2` takes every second specimen from the first on, for two processes at once.

With `--finds-only` it prints with how many seeds each bug was caught, that of the README too. What the canonical cases
of its check catch needs no seed: they are tried first in every run, and are the same in all.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from hypothesis import core

import pytest_evalcheck as ec
from fixtures.gallery.table import CHECKS, SPECIMENS, Specimen
from pytest_evalcheck.engine.cell_spec import CellSpec
from pytest_evalcheck.engine.effort import EFFORTS
from pytest_evalcheck.engine.judging import judge
from pytest_evalcheck.engine.runner import CellRunner
from pytest_evalcheck.expectations.failures import CheckFailure
from pytest_evalcheck.targets import device_spec


def readme_bug() -> tuple[str, ec.Target, str]:
    """The first example of the README, with the code of the check that it shows."""
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    example, shown = re.search(r"```python\n(.*?)```", text, re.S), re.search(r"```text\n(EC\d+) ", text)
    assert example
    assert shown
    names: dict[str, object] = {}
    exec(compile(example[1], "README.md", "exec"), names)
    (target,) = (value for value in names.values() if isinstance(value, ec.Target))
    return shown[1], target, "auto"


def found_by_canonical_cases(code: str, bug: ec.Target, tried: str) -> bool:
    """Return whether the canonical cases of a check catch a bug: nothing is drawn, and no seed matters."""
    devices = device_spec.chosen(device_spec.parse(tried), accelerators_only=bool(CHECKS[code].accelerators))
    cells = (canonical_cell(code, bug, device) for device in devices)
    return any(cell.outcome == "failed" and not cell.cause for cell in cells)


def canonical_cell(code: str, bug: ec.Target, device: str) -> ec.Cell:
    """The cell of a bug and a check of which the canonical cases alone are tried."""
    spec = CellSpec(target=bug, check=CHECKS[code], device=device, where=bug.name, effort=EFFORTS["quick"], timeout=300)
    runner = CellRunner(spec)
    arguments = {"device": device_spec.torch_name(device)} if "device" in bug.arguments else {}
    runner.call_once(arguments)
    with contextlib.suppress(CheckFailure):  # it is in the state
        for case in spec.canonical:
            runner.attempt(case, arguments)
    return judge(spec, runner.state)


def print_finds(bugs: dict[str, tuple[str, ec.Target, str]], seeds: list[int], effort: str) -> None:
    """With how many seeds each bug is caught by its check, where its canonical cases do not catch it."""
    others = {name: bug for name, bug in bugs.items() if not found_by_canonical_cases(*bug)}
    print(f"found by canonical cases: {len(bugs) - len(others)} of {len(bugs)}, with every seed", flush=True)
    for name, (code, bug, tried) in others.items():
        missed = []
        for seed in seeds:
            core.global_force_seed = seed
            if not ec.run(bug, tried, select=code, effort=effort, timeout=300).of("failed"):
                missed.append(seed)
        print(f"  {name}: found with {len(seeds) - len(missed)} of {len(seeds)} seeds", *missed[:10], flush=True)


def judged(specimen: Specimen, effort: str) -> Iterator[str]:
    """Return what is wrong with the verdicts on one planted bug."""
    cells = ec.run(specimen.bug, specimen.device, select=specimen.code, effort=effort, timeout=300).cells
    cell = next((one for one in cells if one.outcome == "failed"), cells[0])
    if cell.outcome != "failed" or cell.cause:
        yield f"missed: {cell.outcome} {cell.reason}"
    named = ",".join([specimen.code, *specimen.breaks_too])
    for other in ec.run(specimen.bug, specimen.devices, ignore=named, effort=effort, timeout=300).of("failed"):
        yield f"caught by {other.code} as well: {other.reason} {other.failure and other.failure.case}"


def print_judged(chosen: list[Specimen], seeds: list[int], effort: str) -> None:
    """Print, for every seed, each judgement that differs from the table of the gallery."""
    twins = {one.twin.name: one.twin for one in chosen}
    for seed in seeds:
        core.global_force_seed = seed
        found = [f"{one.code}-{one.bug.name} {wrong}" for one in chosen for wrong in judged(one, effort)]
        for twin in twins.values():
            broken = ec.run(twin, "auto", effort=effort, timeout=300).of("failed")
            found += [
                f"{twin.name} is correct, but {cell.code}: {cell.reason} {cell.failure and cell.failure.case}"
                for cell in broken
            ]
        for line in found:
            print(f"  {line}")
        print(f"seed {seed}: {len(chosen)} bugs, {len(twins)} twins, {len(found)} judged otherwise", flush=True)


def numbers(text: str) -> list[int]:
    """The numbers of ``2,3,4`` or ``0-199``."""
    parts = [part.partition("-") for part in text.split(",")]
    return [number for first, _, last in parts for number in range(int(first), int(last or first) + 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(sorted({one.bug.kind for one in SPECIMENS})))
    parser.add_argument("--seeds", type=numbers, default="2,3,4", help="such as 2,3,4 or 0-199")
    parser.add_argument("--effort", default="normal", choices=EFFORTS)
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--finds-only", action="store_true", help="nothing but whether each bug is caught by its check")
    parser.add_argument("--smoke", action="store_true", help="a run of seconds, to check that this works")
    asked = parser.parse_args()
    if asked.smoke:
        asked.kinds, asked.seeds, asked.effort = "metric", [2], "quick"
    first, parts = map(int, asked.part.split("/"))
    kinds = asked.kinds.split(",")
    chosen = [one for one in SPECIMENS if one.bug.kind in kinds and not one.apart][first - 1 :: parts]
    if asked.smoke:
        chosen = chosen[:2]
    warnings.simplefilter("ignore")
    if asked.finds_only or asked.smoke:
        bugs = {f"{one.code}-{one.bug.name}": (one.code, one.bug, one.device) for one in chosen}
        if "metric" in kinds and first == 1:
            bugs["the README"] = readme_bug()
        print_finds(bugs, asked.seeds, asked.effort)
    if not asked.finds_only:
        print_judged(chosen, asked.seeds, asked.effort)


if __name__ == "__main__":
    main()
