"""The time to compare and to show a large result, beside what NumPy takes for the same.

    python benchmarks/large_results.py [--numbers 3000000] [--rounds 3] [--smoke]

Each form of a result is compared with one that differs by rounding. The script prints the median ratio to
`numpy.allclose`, which converts lists as well, and those of a look for NaN and of a text. ``--smoke``: few numbers.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch

from pytest_evalcheck.expectations.comparison import Tolerance, difference, has_nonfinite, show

FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "an array": lambda row: row,
    "a tensor": torch.tensor,
    "a list": lambda row: row.tolist(),
    "a list of rows": lambda row: row.reshape(-1, 3).tolist(),
    "a mapping": lambda row: dict(enumerate(row.tolist())),
}


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def ratios(make: Callable[[np.ndarray], Any], row: np.ndarray) -> tuple[float, float, float]:
    """The times of a comparison, a look for NaN and a text of a result, in those of NumPy."""
    actual, expected = make(row), make(row * (1 + 1e-7))
    ours = seconds(lambda: difference(actual, expected, Tolerance()))
    nan, shown = seconds(lambda: has_nonfinite(actual)), seconds(lambda: show(actual))
    plain = [[*each.values()] if isinstance(each, dict) else each for each in (actual, expected)]
    theirs = seconds(lambda: np.allclose(*plain))
    return ours / theirs, nan / theirs, shown / theirs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numbers", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    count, rounds = (3_000, 1) if options.smoke else (options.numbers // 3 * 3, options.rounds)
    row = np.random.default_rng(0).random(count)
    print(f"{count:,} numbers, in times of numpy.allclose: comparing, looking for NaN, showing")
    for name, make in FORMS.items():
        measured = [ratios(make, row) for _ in range(rounds)]
        print(f"{name:16}", *(f"{statistics.median(column):8.2f}" for column in zip(*measured, strict=True)))


if __name__ == "__main__":
    main()
