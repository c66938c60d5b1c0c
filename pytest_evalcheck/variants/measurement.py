"""How fast several ways to do the same are, and how much memory each takes, side by side in one process.

Only ratios of one run say anything: they are taken of medians over rounds in which every way has its turn, so that what
slows the machine for a while slows them all.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

LEAST_ROUNDS = 3
_MOST_ROUNDS = 25


@dataclass(frozen=True)
class Cost:
    """What one way costs."""

    seconds: float
    """The median over the rounds."""
    memory: int | None
    """The most bytes that were allocated at one time beyond what was before it; None where that cannot be told."""
    rounds: int


def side_by_side(ways: Mapping[str, Callable[[], Any]], *, seconds: float, device: str = "cpu") -> dict[str, Cost]:
    """The cost of each way by name. All of them take about ``seconds``, but have three rounds whatever it takes.

    Every way is called once before, since a first call may compile or import, and once to watch its memory: watching
    takes time. What a way raises is raised.
    """
    memory = {}
    for name, way in ways.items():
        way()
        memory[name] = peak_memory(way, device)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    rounds, elapsed = 0, 0.0
    while rounds < LEAST_ROUNDS or (rounds < _MOST_ROUNDS and elapsed * (rounds + 1) / rounds < seconds):
        for name in sorted(ways, reverse=bool(rounds % 2)):
            taken[name].append(_timed(ways[name], device))
        rounds += 1
        elapsed = sum(map(sum, taken.values()))
    return {name: Cost(median(times), memory[name], rounds) for name, times in taken.items()}


def peak_memory(way: Callable[[], Any], device: str = "cpu") -> int | None:
    """The most bytes of tensors that were alive at one time while ``way`` ran, without those from before.

    On CUDA its allocator tells. On the CPU torch's profiler does, which sees every allocation and release of torch's
    allocator: the figure is exact and the same in every run, where the size of the process comes in pages, includes
    what malloc keeps for later, and must be caught at its peak. It sees no other process, nor what numpy allocates.
    """
    import torch

    if device.startswith("cuda") and torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        way()
        torch.cuda.synchronize()
        return max(0, int(torch.cuda.max_memory_allocated() - before))
    try:
        # Not torch.profiler: it writes lines to the stderr of the process, and its events come without an order.
        from torch.autograd import profiler_legacy as legacy

        legacy._enable_profiler_legacy(legacy.profile(profile_memory=True).config())
    except (ImportError, AttributeError, RuntimeError):  # another release of torch, or a profiler that runs already
        return None
    try:
        way()
    finally:
        threads = legacy._disable_profiler_legacy()
    return _highest(threads)


def _highest(threads: Any) -> int:
    """Of lists of profiler records, one a thread, the highest sum of what they allocate, in the order of time."""
    records = [record for thread in threads for record in thread]
    start = next((record for record in records if record.name() == "__start_profile"), None)
    changes = [record for record in records if record.kind() == "memory_alloc"]
    if len(threads) > 1 and start is not None:
        changes.sort(key=start.cpu_elapsed_us)
    now = highest = 0
    for record in changes:
        now += record.cpu_memory_usage()
        highest = max(highest, now)
    return highest


def _timed(way: Callable[[], Any], device: str) -> float:
    collecting = gc.isenabled()
    gc.disable()  # a collection falls on whom it falls
    try:
        started = time.perf_counter()
        way()
        if device.startswith("cuda"):
            import torch

            if torch.cuda.is_available():
                torch.cuda.synchronize()
        return time.perf_counter() - started
    finally:
        if collecting:
            gc.enable()
