"""What a piece of work takes on a machine that does other things, too."""

from __future__ import annotations

import time

try:
    import resource

    _THREAD: int | None = resource.RUSAGE_THREAD
except (ImportError, AttributeError):  # not on Linux
    _THREAD = None


class Clock:
    """Runs from when it is made.

    On a busy machine the time on the wall is that of others, too, and their share is not there for workers either. So
    work that never waited (for a file, a lock, another thread or a sleep) is measured in the time of the processor.
    """

    def __init__(self) -> None:
        self._waits = _waits()
        self._processor = time.thread_time()
        self._wall = time.perf_counter()

    def seconds(self) -> float:
        """What the work in this thread took until now."""
        wall = time.perf_counter() - self._wall
        waited = self._waits is None or _waits() != self._waits
        return wall if waited else min(wall, time.thread_time() - self._processor)


def _waits() -> int | None:
    """How often this thread gave the processor away of its own accord; None where nobody counts."""
    return None if _THREAD is None else resource.getrusage(_THREAD).ru_nvcsw
