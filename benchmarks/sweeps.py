"""Sweeps over registries and options: everything of a kind, with every option that changes its path. Not in CI.

``python benchmarks/sweeps.py`` prints for each sweep how many targets and cells it has, the CPU seconds, and what is
red by cause. Names choose sweeps: ``wrappers`` (every metric of torchmetrics in every wrapper), ``pairs`` (every two
metrics whose states look alike, in one collection), ``options`` (every metric with values of its options that bite),
``combinations`` (every metric with all of its options, every pair of values at once),
``lm_eval`` (every filter, metric, aggregation and output type of lm-evaluation-harness with its options).
``--smoke`` takes a few targets of each, ``--part 2/8`` the second eighth of them, and after ``--minutes`` a sweep
counts what it left out. ``--keep FOLDER`` keeps what was inferred there, and the cells that are red.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import resource
import sys
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
from sweep_combinations import CODES as OF_COMBINATIONS
from sweep_combinations import combined, excuse_of_options
from sweep_families import CODES, alone, pairs, together, wrapped
from sweep_members import MODULES, Member, members, one_of_each_class
from sweep_options import configured, variants
from torchmetrics.utilities.data import dim_zero_mean

import pytest_evalcheck as ec
from pytest_evalcheck.engine.target_errors import TARGET_ERROR
from pytest_evalcheck.upstream import faults

BY_CHANCE = "torchmetrics-collection-merges-members-by-chance"
"""A fault of what an author puts together: the registry does not look for it by class."""
NOT_PERSISTENT = "torchmetrics-wrapper-not-persistent"
WHOLE = "torchmetrics-matthews-of-hits-is-whole"
LOSES_LISTS = "Running loses the samples of a metric that keeps lists"
"""A finding: such a target cannot be tried at all, so that no signature tells it."""
OF_MEANS = "Running of a metric with an averaged state is NaN"
"""A finding: no value of such a target is a number."""
FOUND = {
    "truth value of an array": "acc_mutual_info with several targets is an error (lm-evaluation-harness#3883)",
    "score raised IndexError: list index out of range": "a second match that is not there (lm-evaluation-harness#3997)",
}
"""Findings: such a target cannot be tried at all. By a part of the reason."""
NOTHING_LEFT = "An exact curve of a label that is always ignored is an IndexError (torchmetrics#2685)"
"""A finding: where every small batch has a label with nothing left, no case of a check has a value."""
ACCIDENTS = {
    "index is out of bounds for dimension with size 0": NOTHING_LEFT,
    "cannot reshape tensor of 0 elements": NOTHING_LEFT,
    "index 0 is out of bounds for dimension 0 with size 0": (
        "RecallAtFixedPrecision with a precision of 0 fails on an absent class"
    ),
    "selected index k out of range": 'by design: top_k "only works when preds contain probabilities/logits"',
}
"""Causes that end all cases of a target, or its example call, by a part of the reason: findings and limits."""
OF_NAN = "The largest value of NaN is minus infinity"
"""A finding of MinMaxMetric, which a reference alone shows."""

EXCUSED = frozenset({BY_CHANCE, NOT_PERSISTENT, WHOLE, LOSES_LISTS, OF_MEANS, OF_NAN, *ACCIDENTS.values()})
"""Known causes which the registry does not see by itself."""


def cpu() -> float:
    """CPU seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@dataclass
class Sweep:
    """The targets that a sweep has tried, and its findings."""

    name: str
    targets: int = 0
    left_out: int = 0
    """Targets that no time was left for."""
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    red: dict[str, list[tuple[str, ec.Cell]]] = field(default_factory=dict)
    """By signature: the targets and their cells."""

    def add(self, group: str, target: str, cell: ec.Cell, excused: str) -> None:
        """Count one cell; ``excused`` says why a red one is no fault of what is swept."""
        outcome = excused if excused and cell.outcome in ("failed", "known") else cell.outcome
        self.outcomes[outcome] += 1
        if outcome == "known":
            self.known[cell.upstream or cell.reason] += 1
        elif outcome in EXCUSED:
            self.known[outcome] += 1
        elif outcome in ("failed", "incomplete"):
            place = f"{group}: {cell.signature or cell.reason}"
            if place not in self.red:
                print(f"{self.name}: {target}: {place}", file=sys.stderr, flush=True)
            self.red.setdefault(place, []).append((target, cell))

    def show(self, most: int) -> None:
        """Print it."""
        outcomes = ", ".join(f"{count} {name}" for name, count in self.outcomes.most_common())
        cells = sum(self.outcomes.values())
        print(f"{self.name}: {self.targets} targets, {cells} checks, {self.seconds:.0f} CPU s: {outcomes}")
        if self.left_out:
            print(f"  no time was left for {self.left_out} more")
        for fault, count in self.known.most_common():
            print(f"  known  {count:>5}  {fault}")
        for place, cells_of in sorted(self.red.items()):
            print(f"  RED    {len(cells_of):>5}  {place}")
            for target, _ in cells_of[:most]:
                print(f"                {target}")
        sys.stdout.flush()


def run(sweep: Sweep, target: ec.Target, codes: str) -> list[ec.Cell]:
    """The cells of a target."""
    sweep.targets += 1
    if not codes:
        return []
    before = cpu()
    cells = ec.run(target, select=codes, effort="quick", timeout=60).cells
    sweep.seconds += cpu() - before
    return [*cells]


def _running_excuse(member: Member) -> str:
    """Return what `Running` does to the states of this metric."""
    averaged = any(each is dim_zero_mean for each in getattr(member.make(), "_reductions", {}).values())
    return LOSES_LISTS if member.keeps_lists else OF_MEANS if averaged else ""


def _cells_alone(sweep: Sweep, member: Member, seen: dict[str, dict[str, ec.Cell]]) -> dict[str, ec.Cell]:
    """The cells of a member alone, by code."""
    if member.construction not in seen:
        target = alone(member)
        seen[member.construction] = {cell.code: cell for cell in run(sweep, target, CODES)}
        for cell in seen[member.construction].values():
            sweep.add("alone", member.construction, cell, excuse(cell))
    return seen[member.construction]


def _left(own: Sequence[dict[str, ec.Cell]], members: Sequence[Member]) -> str:
    """The codes of the promises that no member breaks alone: here, or in a fault that is known of its class."""
    broken = {code for cells in own for code, cell in cells.items() if cell.outcome in ("failed", "known")}
    classes = {f"{type(made).__module__}.{type(made).__qualname__}" for made in (each.make() for each in members)}
    of_class = [fault for fault in faults() if not classes.isdisjoint(fault.classes)]
    broken |= {signature.partition(":")[0] for fault in of_class for signature in fault.signatures}
    if "EC201" in broken or any(cells["EC201"].outcome != "passed" for cells in own if "EC201" in cells):
        broken.add("EC217")  # the reference gets all samples in one batch, which is another value
    return ",".join(code for code in CODES.split(",") if code not in broken)


def sweep_wrappers(found: list[Member], chosen: Callable[[str], bool]) -> Sweep:
    """Every metric in every wrapper. Where it breaks a promise alone, the wrapper is not to blame."""
    sweep, seen = Sweep("wrappers"), dict[str, dict[str, ec.Cell]]()
    by_id = {fault.id: fault for fault in faults()}
    for name, member, target in wrapped(one_of_each_class(found), chosen):
        own = _cells_alone(sweep, member, seen)
        # What a metric breaks alone it breaks in a wrapper, too.
        for cell in run(sweep, target, _left([own], [member])):
            excused = _running_excuse(member) if name.startswith("Running") else ""
            # Ours overrides update() for the seed of its resamples, so that the registry takes it for the author's.
            if name == "BootStrapper":
                shown = (each for each in (NOT_PERSISTENT, WHOLE) if by_id[each].shows(cell.signature))
                # A resample of few samples may have no value, or may be refused.
                refused = cell.cause == TARGET_ERROR and "raised ValueError: " in cell.reason
                excused = next(shown, excuse(cell) or ("undefined" if refused else ""))
            if name == "MinMaxMetric" and re.match("EC217: reference: an infinity for ", cell.signature):
                excused = OF_NAN
            sweep.add(name, f"{name}({member.construction})", cell, excused)
    return sweep


def sweep_pairs(found: list[Member], chosen: Callable[[str], bool]) -> Sweep:
    """Every two metrics whose states look alike in one collection, and every metric beside one of another option."""
    sweep, seen = Sweep("pairs"), dict[str, dict[str, ec.Cell]]()
    (fault,) = (each for each in faults() if each.id == BY_CHANCE)
    for name, both, target in itertools.chain(pairs(found, chosen), _beside_variants(found, chosen)):
        own = [_cells_alone(sweep, member, seen) for member in both]
        for cell in run(sweep, target, _left(own, both)):
            title = " and ".join(member.construction for member in both)
            sweep.add(name, title, cell, BY_CHANCE if fault.shows(cell.signature) else "")
    return sweep


def _beside_variants(
    found: list[Member], chosen: Callable[[str], bool]
) -> Iterator[tuple[str, tuple[Member, Member], ec.Target]]:
    for member in one_of_each_class(found):
        for other in variants(member, lambda name, member=member: chosen(f"{member.construction} and {name}")):  # type: ignore[misc]
            yield "variant", (member, other), together(member, other)


def excuse(cell: ec.Cell) -> str:
    """Return why a red cell is no fault of what is swept.

    With class 0 ignored a binary score has one class left, and often no value; with class 1 ignored all of a few
    samples may be of it, and what counts has none. Where a metric refuses small batches, `forward` does so.
    """
    refused = cell.reason.startswith("every case was refused")
    ended = refused or cell.cause == TARGET_ERROR or cell.code == "EC227"
    shown = cell.reason + (cell.failure.detail if cell.failure else "")
    if ended and (why := next((why for text, why in ACCIDENTS.items() if text in shown), "")):
        return why
    small = cell.code == "EC215" and "forward raised ValueError: " in cell.reason
    undefined = (refused and (cell.code == "EC213" or small)) or (
        cell.cause == TARGET_ERROR and "no value" in cell.reason
    )
    return "undefined" if undefined else ""


def sweep_options(found: list[Member], chosen: Callable[[str], bool]) -> Sweep:
    """Every metric with values of its options that bite."""
    sweep = Sweep("options")
    for name, target in configured(one_of_each_class(found), chosen):
        for cell in run(sweep, target, CODES):
            sweep.add("option", name, cell, excuse(cell))
    return sweep


def sweep_combinations(found: list[Member], chosen: Callable[[str], bool]) -> Sweep:
    """Every metric with all of its options at once."""
    sweep = Sweep("combinations")
    for name, target in combined(one_of_each_class(found), chosen):
        for cell in run(sweep, target, OF_COMBINATIONS):
            sweep.add("combination", name, cell, excuse(cell) or excuse_of_options(cell, name))
    return sweep


def sweep_lm_eval(_: list[Member], chosen: Callable[[str], bool]) -> Sweep:
    """Every filter, metric, aggregation and output type of lm-evaluation-harness."""
    import sweep_lm_eval

    sweep, known = Sweep("lm_eval"), [fault for fault in faults() if fault.library == "lm_eval"]
    for name, target in sweep_lm_eval.targets():
        for cell in run(sweep, target, "EC") if chosen(name) else ():
            # What is the fault of a whole task is no fault of one class: the registry does not look for it by itself.
            shown = next((fault.id for fault in known if fault.shows(cell.signature)), "")
            shown = shown or next((why for text, why in FOUND.items() if text in cell.reason), "")
            if cell.outcome == "failed" and shown:
                sweep.known[shown] += 1
                sweep.outcomes["known"] += 1
            else:
                # Two filters after one another may leave the same of every response: two maps, or spans of no text.
                of_two = cell.code == "EC409" and name.endswith(", take_first")
                sweep.add("lm_eval", name, cell, "all the same" if of_two else "")
    return sweep


def _in_part(name: str, part: str) -> bool:
    """Return whether a target of this name is in a part such as ``2/8``: the same ones every time.

    All wrappers of a metric are in one part, which tries that metric alone once.
    """
    number, _, parts = part.partition("/")
    wrapped = name.partition("(")[2].removesuffix(")") or name
    return zlib.crc32(wrapped.encode()) % int(parts or 1) == int(number) - 1


class Chosen:
    """Choice of targets: those that the command line names, as long as there is time."""

    def __init__(self, only: str, part: str, most: int | None, minutes: float) -> None:
        self.only, self.part, self.most = re.compile(only), part, most
        self.end = time.monotonic() + 60 * minutes
        self.left_out = 0

    def __call__(self, name: str) -> bool:
        """Return whether to try the target of this name."""
        if not self.only.search(name) or not _in_part(name, self.part) or self.most == 0:
            return False
        if time.monotonic() > self.end:
            self.left_out += 1
            return False
        if self.most is not None:
            self.most -= 1
        return True


def main() -> None:
    """Run the sweeps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweeps", nargs="*", help="wrappers, pairs, options, combinations, lm_eval (default: all)")
    parser.add_argument("--modules", nargs="+", default=[*MODULES], help="what --evalcheck-target takes")
    parser.add_argument("--only", default="", help="a regular expression that the names of targets must match")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="for what was inferred, and for red checks")
    parser.add_argument("--most", type=int, default=6, help="targets that are printed of one cause")
    parser.add_argument("--part", default="1/1", help="such as 2/8: the second of eight parts of the targets")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which a sweep begins no target")
    parser.add_argument("--smoke", action="store_true", help="a few targets of each sweep")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    hypothesis.settings.register_profile("sweep", max_examples=20)
    hypothesis.settings.load_profile("sweep")
    modules = ("torchmetrics.classification:BinaryRecall", "torchmetrics.classification:BinaryPrecision")
    modules = modules if given.smoke else tuple(given.modules)
    if given.keep:
        given.keep.mkdir(parents=True, exist_ok=True)
    every = {"wrappers": sweep_wrappers, "pairs": sweep_pairs, "options": sweep_options}
    every |= {"combinations": sweep_combinations, "lm_eval": sweep_lm_eval}
    torchmetrics = {*(given.sweeps or every)} - {"lm_eval"}
    found = members(modules, given.keep and given.keep / "members.pickle") if torchmetrics else []

    def chosen() -> Chosen:
        return Chosen(given.only, given.part, 6 if given.smoke else None, given.minutes)

    red = 0
    for name in given.sweeps or every:
        started, which = time.monotonic(), chosen()
        sweep = every[name](found, which)
        sweep.left_out = which.left_out
        sweep.show(given.most)
        red += sum(map(len, sweep.red.values()))
        if given.keep:
            cells = [(place, target, _plain(cell)) for place, those in sweep.red.items() for target, cell in those]
            (given.keep / f"{name}.json").write_text(json.dumps(cells, indent=1), encoding="utf-8")
        print(f"  {time.monotonic() - started:.0f} s", flush=True)
    sys.exit(min(red, 1))


def _plain(cell: ec.Cell) -> dict[str, Any]:
    failure = cell.failure
    return {"code": cell.code, "reason": cell.reason, "failure": str(failure), "signature": cell.signature}


if __name__ == "__main__":
    main()
