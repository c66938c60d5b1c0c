"""Speed and memory of several functions with the same result, measured in turns in one process.

Only ratios within one run are meaningful: they compare medians over rounds in which every function has its turn, so
that a load that slows the machine for a while slows them all.
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
    """The cost of one function."""

    seconds: float
    """The median over the rounds."""
    memory: int | None
    """The peak of allocated bytes beyond those from before the call; None where it cannot be measured."""
    rounds: int


def side_by_side(calls: Mapping[str, Callable[[], Any]], *, seconds: float, device: str = "cpu") -> dict[str, Cost]:
    """The cost of each function by name, measured for about ``seconds`` in all, but in at least three rounds.

    Every function is called once before, since a first call may compile or import, and once to measure its memory,
    which takes time. Its errors are raised.
    """
    memory = {}
    for name, call in calls.items():
        call()
        memory[name] = peak_memory(call, device)
    times: dict[str, list[float]] = {name: [] for name in calls}
    rounds, elapsed = 0, 0.0
    while rounds < LEAST_ROUNDS or (rounds < _MOST_ROUNDS and elapsed * (rounds + 1) / rounds < seconds):
        for name in sorted(calls, reverse=bool(rounds % 2)):
            times[name].append(_timed(calls[name], device))
        rounds += 1
        elapsed = sum(map(sum, times.values()))
    return {name: Cost(median(seconds), memory[name], rounds) for name, seconds in times.items()}


def peak_memory(call: Callable[[], Any], device: str = "cpu") -> int | None:
    """The peak of bytes in tensors while ``call`` runs, without those from before; None where it cannot be measured.

    On CUDA the allocator counts. On the CPU torch's profiler sees every allocation and release of torch's allocator:
    the figure is exact and the same in every run. The size of the process would come in pages, include the reserve of
    malloc, and need sampling at its peak. Other processes and allocations by numpy are not counted.
    """
    import torch

    if device.startswith("cuda") and torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        torch.cuda.synchronize()
        return max(0, int(torch.cuda.max_memory_allocated() - before))
    try:
        # Not torch.profiler: it writes lines to the stderr of the process, and its events come without an order.
        from torch.autograd import profiler_legacy as legacy

        legacy._enable_profiler_legacy(legacy.profile(profile_memory=True).config())
    except (ImportError, AttributeError, RuntimeError):  # another release of torch, or a profiler that is running
        return None
    try:
        call()
    finally:
        threads = legacy._disable_profiler_legacy()
    return _highest(threads)


def _highest(threads: Any) -> int:
    """The highest running sum of allocations in the profiler records of all threads, in the order of time."""
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


def _timed(call: Callable[[], Any], device: str) -> float:
    collecting = gc.isenabled()
    gc.disable()  # a collection would be timed with whichever call it interrupts
    try:
        started = time.perf_counter()
        call()
        if device.startswith("cuda"):
            import torch

            if torch.cuda.is_available():
                torch.cuda.synchronize()
        return time.perf_counter() - started
    finally:
        if collecting:
            gc.enable()
