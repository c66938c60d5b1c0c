"""Cost of a case beyond the work of the target and the draws of Hypothesis: CPU milliseconds, check by check.

``python benchmarks/case_cost.py`` runs checks of a metric in plain Python, whose own work is next to nothing. Measured
in one process: the whole cell, the function of the check in it (what calls the target and compares its values), and
Hypothesis drawing as many cases of the same strategy for a test that does nothing. What is left is ours: isolation,
counting, judging. ``--smoke`` takes two checks, once.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.engine.runner import CellRunner
from pytest_evalcheck.kinds.registry import shipped

CODES = ("EC201", "EC202", "EC203", "EC204", "EC205", "EC206", "EC208")
ROUNDS = 5
NUMBERS = es.samples(
    st.integers(0, 9),
    collate=lambda rows: ([float(row) for row in rows],),
    name="numbers",
    right=lambda _: 1,
    wrong=lambda _: 9,
)


class Mean:
    """The mean of numbers, without a tensor."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, values: list[float]) -> None:
        self.total += sum(values)
        self.count += len(values)

    def merge_state(self, others: list[Mean]) -> None:
        for other in others:
            self.total += other.total
            self.count += other.count

    def reset(self) -> None:
        self.total, self.count = 0.0, 0

    def compute(self) -> float:
        return self.total / self.count if self.count else float("nan")


@ec.metric(inputs=NUMBERS)
def mean() -> Mean:
    """The metric."""
    return Mean()


def seconds(function: Callable[[], Any]) -> float:
    """Processor seconds that a call takes."""
    started = time.process_time()
    function()
    return time.process_time() - started


def measured(code: str) -> tuple[int, float, float, float]:
    """Return how many cases were tried, and the seconds of the cell, of the function of its check, and of the draws."""
    spent: list[float] = []
    check = next(made for made in shipped() if made.code == code)
    original = CellRunner._check

    def timed(self: CellRunner, *arguments: Any) -> None:
        spent.append(seconds(lambda: original(self, *arguments)))

    with patch.object(CellRunner, "_check", timed):
        ec.run(mean, select=code, effort="thorough")  # imports, and what is built once
        spent.clear()
        found: list[Any] = []
        whole = seconds(lambda: found.append(ec.run(mean, select=code, effort="thorough")))
    cell = found[0].cells[0]
    quiet = settings(
        max_examples=max(cell.examples, 1), deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )

    def nothing(case: Any) -> None:
        pass

    draws = seconds(quiet(given(case=check.case.strategy(NUMBERS))(nothing)))
    return cell.examples, whole, sum(spent), draws


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="two checks")
    smoke = parser.parse_args().smoke
    codes, rounds = (CODES[:2], 1) if smoke else (CODES, ROUNDS)
    print(f"{'check':<8} {'cases':>6} {'a case, ms':>11} {'check':>7} {'drawn':>7} {'ours':>7}")
    rows = [[measured(code) for code in codes] for _ in range(rounds)]
    for place, code in enumerate(codes):
        show(code, [row[place] for row in rows])
    show("all", [one for row in rows for one in row])


def show(name: str, found: list[tuple[int, float, float, float]]) -> None:
    """One line: milliseconds a case, over several runs."""
    cases, whole, checked, drawn = (sum(one[place] for one in found) for place in range(4))
    parts = [1000 * value / cases for value in (whole, checked, drawn, whole - checked - drawn)]
    print(f"{name:<8} {cases:6.0f} {parts[0]:11.2f} {parts[1]:7.2f} {parts[2]:7.2f} {parts[3]:7.2f}")


if __name__ == "__main__":
    main()
