"""A time limit for code that may not end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class CellTimeout(BaseException):
    """The cell's time is over. No `Exception`, so that the code under test does not take it for its own."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise `CellTimeout` in this block after ``seconds``, and every second from then on until it ends.

    Works in the main thread where the platform has alarms (not on Windows); elsewhere there is no limit. It
    interrupts Python code, locks and sleeps, but not a context manager that is being left, for the first ten seconds;
    a call into compiled code that never returns needs an isolated cell.
    """
    if not seconds or not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    waited = 0

    def over(_: int, frame: FrameType | None) -> None:
        nonlocal waited
        # What is restored halfway (a default device, the settings of Hypothesis) would stay so for good.
        if _leaving(frame) and waited < _PATIENCE:
            waited += 1
            return
        raise CellTimeout

    previous = signal.signal(signal.SIGALRM, over)
    # Again every second: code under test may swallow the first one in a bare `except`.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


_PATIENCE = 10


def _leaving(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "__exit__":
            return True
        frame = frame.f_back
    return False
