"""Print how often the intervals of libraries hold the true value, by the number of samples and the true share.

python benchmarks/intervals.py [--trials 400] [--only NAME ...]
python benchmarks/intervals.py --power    the probability with which EC010 fails, by the coverage of an interval

Each row is an interval of `fixtures/targets/evalcheck_intervals_*.py` that prints 95 %. A number is the share of data
sets whose interval holds the true value; of 400 data sets it has a standard error of 1.1 points. A star marks what is
outside of the bounds of EC010. A dash stands for data sets without an interval, as those of equal scores may be. The
last column has the CPU seconds of EC010 to EC013 on the target, at quick effort.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TARGETS = ROOT / "fixtures" / "targets"
sys.path[:0] = [str(ROOT), str(TARGETS)]

import pytest_evalcheck as ec  # noqa: E402
from pytest_evalcheck.expectations.comparison import Raised  # noqa: E402
from pytest_evalcheck.kinds.common.intervals import (  # noqa: E402
    Coverage,
    Design,
    Interval,
    Stated,
    bounds,
    design_of,
    power,
)
from pytest_evalcheck.kinds.common.subject import EstimatingSubject  # noqa: E402
from pytest_evalcheck.kinds.registry import kind_of  # noqa: E402

TRIALS, COVERAGES = (60, 600), (45, 60, 70, 80, 85, 88, 93, 95, 97, 99.9)
"""The data sets of a loop and of a metric or scorer, and true coverages of intervals that say 95 %."""
SIZES, SHARES = (30, 100, 400), (0.5, 0.9, 0.98)
CHECKS = "EC010,EC011,EC012,EC013"
KINDS = 50
"""Number of samples in a population: shares are multiples of 1/50."""


def targets(only: list[str]) -> Iterator[tuple[str, ec.Target]]:
    """Yield the targets by the names of their library and of themselves, where their library is installed."""
    for path in sorted(TARGETS.glob("evalcheck_intervals_*.py")):
        module = importlib.import_module(path.stem)
        for name, target in vars(module).items():
            label = f"{path.stem.removeprefix('evalcheck_intervals_')}: {name}"
            if (
                isinstance(target, ec.Target)
                and not target.missing()
                and (not only or any(one in label for one in only))
            ):
                yield label, target


def subject_of(target: ec.Target) -> EstimatingSubject:
    """Return the subject of a target on the CPU."""
    from pytest_evalcheck.adapters import record

    def build() -> Any:
        return record(target.kind, target.factory(*["cpu"] * len(target.arguments)))

    made: EstimatingSubject = kind_of(target.kind).subject(build=build, inputs=target.inputs)  # type: ignore[assignment]
    return made


def population(subject: EstimatingSubject, share: float) -> list[Any]:
    """Return samples, of which this share is predicted right."""
    inputs = subject.inputs
    assert inputs.wrong is not None
    right = inputs.right or (lambda sample: sample)
    rows = list(islice(cycle(inputs.fixed(4)), KINDS))
    return [right(row) if i < round(share * KINDS) else inputs.wrong(row) for i, row in enumerate(rows)]


def coverage(subject: EstimatingSubject, interval: Interval, design: Design, trials: int) -> Coverage | None:
    """Return how often the interval holds the true value; None where it is not stated."""
    true = interval.read(subject.estimates(design.balanced()))
    read = [interval.read(subject.estimates(rows)) for rows in islice(design.drawn(0), trials)]
    found = [each for each in read if isinstance(each, Stated)]
    if true is None or isinstance(true, Raised) or len(found) < trials // 2:
        return None
    return Coverage(true.value, design.size, len(found), found)


def cell(found: Coverage | None, level: float) -> str:
    """Return the share of a coverage in percent."""
    if found is None:
        return "-"
    return f"{found.held / len(found.stated):.0%}{'*' if found.way(level) else ''}"


def row(target: ec.Target, trials: int) -> Iterator[str]:
    """Yield the cells of a target: by size and share, or those of one design in groups or clusters."""
    subject = subject_of(target)
    for interval in subject.build().intervals[:1]:
        most = max(50, min(trials, interval.trials))
        if interval.group or interval.cluster:
            rows = population(subject, 0.75)
            design = design_of(interval, [rows[0], rows[1], rows[2], rows[-1]])
            found = coverage(subject, interval, design, most)
            yield f"{'groups' if interval.group else 'clusters'}, n={design.size}: {cell(found, interval.level)}"
            continue
        for size in SIZES:
            for share in SHARES:
                yield cell(
                    coverage(subject, interval, Design([(population(subject, share), size)]), most), interval.level
                )


def seconds(target: ec.Target) -> str:
    """Return the CPU seconds of the checks of intervals."""
    start = time.process_time()
    ec.run(target, "cpu", select=CHECKS, effort="quick")
    return f"{time.process_time() - start:.1f}"


def power_table() -> list[str]:
    """Return the probability with which EC010 fails for intervals of 95 %, by data sets and by their true coverage."""
    heads = ["data sets", "bounds", *(f"{share:.4g} %" for share in COVERAGES)]
    rows = [heads, ["---"] * len(heads)]
    for trials in TRIALS:
        least, most = bounds(trials)
        failing = [power(trials, share / 100) for share in COVERAGES]
        rows.append([str(trials), f"{least} to {most}", *(f"{p:.3f}" if p >= 5e-4 else f"{p:.0e}" for p in failing)])
    return [f"| {' | '.join(row)} |" for row in rows]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--trials", type=int, default=400, help="data sets for each number")
    parser.add_argument("--only", nargs="*", default=[], help="parts of the names of rows")
    parser.add_argument("--power", action="store_true", help="how likely EC010 is to fail, and nothing else")
    parser.add_argument("--smoke", action="store_true", help="two rows of a few data sets")
    asked = parser.parse_args()
    if asked.smoke:
        asked.trials, asked.only = 20, ["statistics: wilson", "lm_eval: mean"]
    if asked.power:
        print("\n".join(power_table()))
        return
    heads = [f"n={size} p={share}" for size in SIZES for share in SHARES]
    print("| printed: 95 % |", " | ".join([*heads, "CPU s"]), "|")
    print("| --- |", " | ".join("---" for _ in [*heads, 0]), "|")
    for label, target in targets(asked.only):
        cells = list(row(target, asked.trials))
        if cells:
            print(
                f"| {label} |",
                " | ".join([*cells, *[""] * (len(heads) - len(cells)), seconds(target)]),
                "|",
                flush=True,
            )


if __name__ == "__main__":
    main()
