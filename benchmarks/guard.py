"""The time and memory of the guard, compared with a deep copy and `torch.equal`, on one batch, in turn.

    python benchmarks/guard.py [--rounds 60] [--rows 64] [--smoke]

A batch is four int64 tensors of rows x 2048 (4 MiB with 64 rows). The script prints the median wall time of a snapshot
and of a comparison that finds no change, the ratios of `copy.deepcopy` with `torch.equal` in reused and in fresh memory
to it, and the growth of the peak of resident memory as a share of the batch, each in its own process with 16 times the
rows. One thread. ``--smoke`` runs three rounds on a small batch.

Memory is *reused* where a copy was freed just before and the allocator keeps what is freed. It is *fresh* where copies
are kept, as by a loop that keeps its batches, and free memory was trimmed: the system gives new pages.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import hashlib
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

os.environ["OMP_NUM_THREADS"] = "1"

import torch

from pytest_evalcheck.expectations.comparison import EXACT, difference
from pytest_evalcheck.guard import Snapshot

KEYS = ("input_ids", "attention_mask", "labels", "position_ids")
Batch = dict[str, torch.Tensor]
KEPT: list[Batch] = []


def prepare(function: Callable[[Batch], None], batch: Batch) -> None:
    """Leave the allocator with the pages of a copy that was just freed, or with none."""
    libc = ctypes.CDLL(None)
    trim_threshold, most_mapped = -1, -4
    libc.mallopt(trim_threshold, 2**31 - 1)
    libc.mallopt(most_mapped, 0)
    if function is copied_afresh:
        libc.malloc_trim(0)
    else:
        copied(batch)


def batch_of(rows: int) -> Batch:
    return {key: torch.randint(0, 50_000, (rows, 2048)) for key in KEYS}


def copied(batch: Batch) -> None:
    before = copy.deepcopy(batch)
    assert all(torch.equal(before[key], batch[key]) for key in before)


def copied_and_closed(batch: Batch) -> None:
    torch.testing.assert_close(batch, copy.deepcopy(batch), rtol=0, atol=0)


def copied_and_named(batch: Batch) -> None:
    assert difference(batch, copy.deepcopy(batch), EXACT) is None


def copied_afresh(batch: Batch) -> None:
    KEPT.append(copy.deepcopy(batch))
    assert all(torch.equal(KEPT[-1][key], batch[key]) for key in batch)


def digested(batch: Batch) -> None:
    for _ in range(2):
        for tensor in batch.values():
            hashlib.blake2b(memoryview(tensor.numpy()), digest_size=16).digest()


def exact(batch: Batch) -> None:
    assert not Snapshot(batch).changes()


def exact_without_copies(batch: Batch) -> None:
    assert not Snapshot(batch, copy_limit=0).changes()


def fast(batch: Batch) -> None:
    assert not Snapshot(batch, fast=True).changes()


ROWS: dict[str, Callable[[Batch], None]] = {
    "deepcopy + torch.equal, reused memory": copied,
    "deepcopy + torch.equal, fresh memory": copied_afresh,
    "deepcopy + assert_close": copied_and_closed,
    "deepcopy + a compare that names the place": copied_and_named,
    "nothing but BLAKE2b, twice": digested,
    "exact guard": exact,
    "exact guard, copy_limit=0": exact_without_copies,
    "fast guard": fast,
}


def seconds(function: Callable[[Batch], None], batch: Batch) -> float:
    prepare(function, batch)
    started = time.perf_counter()
    function(batch)
    return time.perf_counter() - started


def added(name: str, rows: int) -> float:
    """Return how much the peak of resident memory grows, as a share of the batch."""
    batch = batch_of(rows)
    ROWS[name](batch_of(1))  # what is imported on first use is no copy
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ROWS[name](batch)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return 1024 * grown / sum(tensor.nbytes for tensor in batch.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--memory-of", choices=ROWS, help=argparse.SUPPRESS)
    parser.add_argument("--smoke", action="store_true", help="three rounds on a batch of 4 rows")
    given = parser.parse_args()
    if given.smoke:
        given.rounds, given.rows = 3, 4
    if given.memory_of:
        print(added(given.memory_of, given.rows))
        return
    # First, as a process inherits the peak of the one that starts it.
    command = [sys.executable, __file__, "--rows", str(16 * given.rows), "--memory-of"]
    share = {name: float(subprocess.check_output([*command, name])) for name in ROWS}
    batch = batch_of(given.rows)
    taken: dict[str, list[float]] = {name: [] for name in ROWS}
    for number in range(given.rounds):
        for name, function in ROWS.items():
            if function is not copied_and_named or number < 3:
                taken[name].append(seconds(function, batch))
    KEPT.clear()
    medians = {name: statistics.median(times) for name, times in taken.items()}
    reused, fresh = (medians[f"deepcopy + torch.equal, {kind} memory"] for kind in ("reused", "fresh"))
    size = sum(tensor.nbytes for tensor in batch.values())
    print(f"a batch of {size / 2**20:.0f} MiB, {given.rounds} rounds")
    print(f"{'':42}{'time':>15}{'times: reused':>16}{'fresh':>10}{'memory added':>15}")
    for name, median in medians.items():
        print(
            f"{name:42}{1e6 * median:12.1f} us{reused / median:16.1f}{fresh / median:10.1f}{100 * share[name]:13.1f} %"
        )


if __name__ == "__main__":
    main()
