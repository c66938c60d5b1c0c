"""Fidelity of the simulated device: the calls it accepts and refuses beside those of PyTorch's FakeTensor.

    python benchmarks/fidelity.py [--ops 'nn.functional.*,add'] [--device cuda|mps] [--samples 3] [--seed 0] [--list]
    python benchmarks/fidelity.py --real
    python benchmarks/fidelity.py --smoke

Calls are those that PyTorch tests its operators with (`op_db`), up to three of different kinds each, and their in-place
forms. Placements are all tensors on the device, then each tensor in turn on the CPU, and on a second device. A decision
is one call in one placement. Printed are how many there are, how many FakeTensor agrees with, and how many are right:

* as a real CUDA device says, with `--real`, where there is one and it was asked;
* else as `fidelity_table.md` says, which has a reason for every group of differences;
* else refused, where an operator of the call has a check of devices that PyTorch generates (`fidelity_checks.py`);
* else as the source of a composite says: its C++ is run operator by operator, with these checks, over FakeTensor;
* else as FakeTensor says; what depends on values it cannot decide;
* else accepted, where all tensors are on the device and PyTorch tests that operator there with that dtype.

A wrong refusal is a false alarm of the simulation, a wrong acceptance is a bug that it lets through. Then values and
gradients inside and outside are compared, and float64 on MPS is tried. Same seed, same decisions; about two minutes on
one core. Needs `expecttest`. `--smoke` asks about a few operators, in seconds.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import logging
import os
import time
import warnings
from collections.abc import Iterable

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from fidelity_real import RealDevice
from fidelity_references import UNDECIDED, Verdict, faked, simulated, sourced
from fidelity_samples import KINDS, Call, Placement, operators, placements
from fidelity_table import Row, find, rows
from fidelity_values import Tally, float64, gradients, values

from pytest_evalcheck.devices.rules.native_functions import lacking
from pytest_evalcheck.devices.rules.native_functions import operators as operators_of_the_file

DECIDED = ("accepted", "refused")
SMOKE = "add,addmm,cat,gather,where,zeros"
SHARES = {"FakeTensor agrees": "FakeTensor decided too", "right after adjudication": "known after adjudication"}
# Where the simulation is known to be wrong, as patterns of decisions: the test that holds the rest looks away here.
SHORT_OF: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Decision:
    """One call in one placement, and what everybody says."""

    call: Call
    placement: Placement
    ours: Verdict
    fake: Verdict
    real: Verdict | None
    row: Row | None
    source: Verdict = UNDECIDED

    @property
    def right(self) -> str:
        """`accepted`, `refused`, `ambiguous`, or nothing where nobody knows."""
        if self.real is not None and self.real.kind in DECIDED:
            return self.real.kind
        if self.row is not None:
            return self.row.right
        if self.ours.checked:
            return "refused"
        if self.source.kind in DECIDED:
            return self.source.kind
        if self.fake.kind in DECIDED:
            return self.fake.kind
        return "accepted" if not self.placement.argument and self.call.on_cuda else ""

    @property
    def wrong(self) -> bool:
        return self.right in DECIDED and self.ours.kind in DECIDED and self.ours.kind != self.right

    @property
    def differs(self) -> bool:
        return self.fake.kind in DECIDED and self.ours.kind in DECIDED and self.ours.kind != self.fake.kind

    @property
    def unexplained(self) -> bool:
        return self.differs and self.row is None and not self.ours.checked and self.source.kind != self.ours.kind

    def __str__(self) -> str:
        return (
            f"{self.call.op} {self.call.number}, {self.placement}: ours {self.ours.kind} at {self.ours.at}"
            f" ({self.ours.text[:110]}), FakeTensor {self.fake.kind} at {self.fake.at} ({self.fake.text[:110]})"
        )


def decisions(given: list[Call], table: list[Row], device: RealDevice | None = None) -> list[Decision]:
    """All decisions about the calls of one operator."""
    return decided([(call, placement) for call in given for placement in placements(call)], table, device)


def decided(asked: list[tuple[Call, Placement]], table: list[Row], device: RealDevice | None = None) -> list[Decision]:
    """The decisions about calls in placements. A real device is asked only about all of one operator."""
    with simulated("cuda:1") as ask:
        ours = [ask(*each) for each in asked]
    with faked() as ask:
        fakes = [ask(*each) for each in asked]
    with sourced() as ask:
        sources = [ask(*each) for each in asked]
    reals: list[Verdict | None] = [None] * len(asked)
    if device is not None and asked:
        reals = list(device.answers(asked[0][0].family, len(asked)))
    return [
        Decision(call, placement, our, fake, fact, find(table, call.op, placement, our, fake), source)
        for (call, placement), our, fake, fact, source in zip(asked, ours, fakes, reals, sources, strict=True)
    ]


def told(found: list[Decision]) -> dict[str, int]:
    """The figures."""
    held = [each for each in found if each.fake.kind in DECIDED and each.ours.kind in DECIDED]
    known = [each for each in found if each.right in DECIDED and each.ours.kind in DECIDED]
    return {
        "decisions": len(found),
        "of them with tensors on two devices": sum(bool(each.placement.argument) for each in found),
        "FakeTensor decided too": len(held),
        "FakeTensor agrees": sum(not each.differs for each in held),
        "known after adjudication": len(known),
        "right after adjudication": sum(not each.wrong for each in known),
        "wrong refusals": sum(each.wrong and each.ours.kind == "refused" for each in known),
        "wrong acceptances": sum(each.wrong and each.ours.kind == "accepted" for each in known),
        "composites whose source decided": sum(each.source.kind in DECIDED for each in found),
        "of them FakeTensor differs from the source": sum(
            each.source.kind in DECIDED and each.fake.kind in DECIDED and each.source.kind != each.fake.kind
            for each in found
        ),
        "of them the simulation differs from the source": sum(
            each.source.kind in DECIDED and each.ours.kind in DECIDED and each.source.kind != each.ours.kind
            for each in found
        ),
        "ambiguous": sum(each.right == "ambiguous" for each in found),
        "nobody to compare with": sum(not each.right for each in found),
        "declared not checkable by the simulation": sum(each.ours.kind == "undecided" for each in found),
        "crashes": sum(each.ours.kind == "crashed" for each in found),
        "unexplained": sum(each.unexplained for each in found),
        "results on another device than FakeTensor's": sum(map(elsewhere, found)),
    }


def elsewhere(each: Decision) -> bool:
    """Both accept, and put the result in different places."""
    both = each.ours.kind == each.fake.kind == "accepted"
    return both and each.ours.devices != each.fake.devices and len(each.ours.devices) == len(each.fake.devices)


def listed(title: str, found: Iterable[Decision]) -> None:
    found = list(found)
    if found:
        print(f"\n{title} ({len(found)})")
        for each in found:
            print(f"  {each}")


def groups(found: list[Decision]) -> None:
    """Print the number of decisions of each row of the table, and of the generated checks."""
    counted = collections.Counter(each.row.group for each in found if each.row is not None)
    generated = sum(each.row is None and bool(each.ours.checked) and each.differs for each in found)
    print("\ngroups of differences, as in fidelity_table.md")
    for name, number in counted.items():
        print(f"  {number:5} {name}")
    print(f"  {generated:5} PyTorch's generated check refuses, FakeTensor does not")


def _share(figures: dict[str, int], name: str, over: str) -> str:
    return f"{100 * figures[name] / max(figures[over], 1):7.2f}%"


def tallies(pattern: str, device: str, kinds: int = KINDS, seed: int = 0) -> dict[str, Tally]:
    """Values and gradients on a simulated cuda, float64 on a simulated mps."""
    every = {"values": values, "gradients": gradients} if device == "cuda" else {"float64": float64}
    found = {name: Tally() for name in every}
    for same in operators(pattern, kinds, seed):
        for call in same:
            for name, compare in every.items():
                compare(call, found[name])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", default="*", help="names of operators, with * and ?, separated by commas")
    parser.add_argument("--device", choices=("cuda", "mps"), help="only what is about this device")
    parser.add_argument("--samples", type=int, default=KINDS, help="samples of different kinds of an operator, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--real", action="store_true", help="ask a real CUDA device too")
    parser.add_argument("--list", action="store_true", help="name every decision that is wrong or ambiguous")
    parser.add_argument("--smoke", action="store_true", help=f"the same as --samples 1 --ops {SMOKE}")
    given = parser.parse_args()
    if given.smoke:
        given.ops, given.samples = SMOKE, 1
    drawn = given.samples, given.seed
    if given.real and not torch.cuda.is_available():
        parser.error("--real: there is no CUDA device here")
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    started = time.perf_counter()
    if given.device != "mps":
        table = rows()
        with RealDevice("cuda", *drawn) if given.real else contextlib.nullcontext() as device:
            found = [each for same in operators(given.ops, *drawn) for each in decisions(same, table, device)]
        figures = told(found)
        for name, number in figures.items():
            print(f"{number:7} {name}")
        print("\nagreement, and with tensors on two devices alone")
        apart = told([each for each in found if each.placement.argument])
        for name, over in SHARES.items():
            print(f"{_share(figures, name, over)}{_share(apart, name, over)} {name}")
        groups(found)
        listed("crashes", (each for each in found if each.ours.kind == "crashed"))
        listed("unexplained", (each for each in found if each.unexplained))
        if given.list:
            listed("wrong refusals", (each for each in found if each.wrong and each.ours.kind == "refused"))
            listed("wrong acceptances", (each for each in found if each.wrong and each.ours.kind == "accepted"))
            listed("ambiguous", (each for each in found if each.right == "ambiguous"))
            listed("results elsewhere", filter(elsewhere, found))
            listed("nobody to compare with", (each for each in found if not each.right))
    for device in ("cuda", "mps"):
        if given.device in (None, device):
            for name, tally in tallies(given.ops, device, *drawn).items():
                print(f"\n{name} on a simulated {device}: {tally.compared} compared, ", end="")
                print(f"{len(tally.rounded)} differ in the last bits, {len(tally.different)} otherwise")
                for each in tally.different:
                    print(f"  {each}")
            names = {missing for name in operators_of_the_file() if (missing := lacking(name, device.upper()))}
            print(f"\n{len(names)} kernels of the CPU are missing on {device}, by the installed native_functions.yaml;")
            print("tests/devices/test_missing_kernels.py calls them: each is refused")
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
