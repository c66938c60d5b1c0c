"""A time limit for code that may not end."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

LONGEST = 1e8
"""Seconds, about three years: `signal.setitimer` refuses much longer ones."""

_PATIENCE = 10
_AGAIN = 1.0
_SHORTEST = 1e-6
_SOON = 0.01


class CellTimeout(BaseException):
    """The cell's time is over. No `Exception`, so that the code under test does not take it for its own."""


watchers: list[Callable[[float | None], None]] = []
"""Called with the seconds whenever a limit starts or moves, and with None when it ends.

What supervises the process learns from it how long the code under test may take.
"""


class TimeLimit:
    """A limit that is in force in its block: ``with time_limit(10) as limit``."""

    def __init__(self, seconds: float | None) -> None:
        if seconds is not None and not seconds >= 0:
            raise ValueError(f"a time limit of {seconds!r}; expected seconds, or None for no limit")
        self.seconds = seconds
        self.disturbed = ""
        """The change of the alarm by the code in the block; empty when it left it alone."""
        self._alarms = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
        self._owner: FrameType | None = None
        self._deadline: float | None = None
        self._previous: tuple[Any, float, tuple[float, float]] | None = None
        self._waiting_since: float | None = None
        self._raised = False

    def __enter__(self) -> TimeLimit:
        self._owner = sys._getframe(1)
        if self._alarms and self.seconds:
            self._take_alarm()
        self.extend(self.seconds)
        return self

    def __exit__(self, *raised: object) -> None:
        # An alarm that comes in here raises nothing: `_over` sees this frame.
        if self._previous is not None:
            handler, started, (remaining, interval) = self._previous
            self.repair()
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
            left = remaining - (time.monotonic() - started)  # of the limit around this one, whose time went on
            ours = isinstance(getattr(handler, "__self__", None), TimeLimit)
            # Of others one alarm is due: it has ended the block, and must not end what comes after the block, too.
            if remaining and (ours or left > 0 or not self._raised):
                signal.setitimer(signal.ITIMER_REAL, max(left, _SOON), interval)
        self._previous = self._owner = self._deadline = None
        for watch in watchers:
            watch(None)

    def extend(self, seconds: float | None) -> None:
        """End the block ``seconds`` from now; None or 0 for no limit."""
        self.seconds = seconds
        if seconds and self._alarms and self._previous is None:
            self._take_alarm()
        self._deadline = time.monotonic() + min(seconds, LONGEST) if seconds else None
        self._waiting_since = None
        self._start_timer()
        for watch in watchers:
            watch(seconds or None)

    def repair(self) -> str:
        """Restore the alarm where the code in the block took it for itself, and return what that code did."""
        if self._previous is None:
            return ""
        found = ""
        if signal.SIGALRM in signal.pthread_sigmask(signal.SIG_BLOCK, ()):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
            found = "it blocked SIGALRM"
        if signal.getsignal(signal.SIGALRM) != self._on_alarm:
            signal.signal(signal.SIGALRM, self._on_alarm)
            found = "it took SIGALRM for itself"
        remaining, interval = signal.getitimer(signal.ITIMER_REAL)
        if self._deadline is not None and (not remaining or interval != _AGAIN):
            found = found or "it changed the timer of SIGALRM"
        if found and self._deadline is not None:
            self._start_timer()
        self.disturbed = self.disturbed or found
        return found

    def _take_alarm(self) -> None:
        started, timer = time.monotonic(), signal.getitimer(signal.ITIMER_REAL)
        self._previous = signal.getsignal(signal.SIGALRM), started, timer
        signal.signal(signal.SIGALRM, self._on_alarm)

    def _start_timer(self) -> None:
        if self._previous is None:
            return
        _, started, (outer, _interval) = self._previous
        now = time.monotonic()
        ends = [self._deadline] if self._deadline is not None else []
        ends += [started + outer] if outer else []
        # Again every second: code under test may swallow the first one in a bare `except`.
        signal.setitimer(signal.ITIMER_REAL, max(min(ends) - now, _SHORTEST) if ends else 0, _AGAIN if ends else 0)

    def _on_alarm(self, _: int, frame: FrameType | None) -> None:
        unsafe, callbacks = False, {getattr(callback, "__code__", None) for callback in gc.callbacks}
        while frame is not None and frame is not self._owner:
            if frame.f_code in _OWN:
                if frame.f_code is not TimeLimit.__exit__.__code__:  # it comes again when the limit is set up
                    signal.setitimer(signal.ITIMER_REAL, _SOON, _AGAIN)
                return
            # What is restored halfway (a default device, the settings of Hypothesis) would stay so for good; what is
            # raised in a finalizer or by the garbage collector's callbacks, Python drops.
            unsafe |= frame.f_code.co_name in {"__exit__", "__del__"} or frame.f_code in callbacks
            frame = frame.f_back
        if frame is None:  # the block was left without its end, and this timer with it
            if self._previous is not None:
                self.__exit__()
            return
        if unsafe:
            self._waiting_since = self._waiting_since or time.monotonic()
            if time.monotonic() < self._waiting_since + _PATIENCE:
                signal.setitimer(signal.ITIMER_REAL, _SOON, _AGAIN)
                return
        self._raised = True
        raise CellTimeout


_OWN = {
    function.__code__
    for function in (
        TimeLimit.__enter__,
        TimeLimit.__exit__,
        TimeLimit.extend,
        TimeLimit.repair,
        TimeLimit._take_alarm,
        TimeLimit._start_timer,
    )
}


def time_limit(seconds: float | None) -> TimeLimit:
    """Raise `CellTimeout` in a ``with`` block after ``seconds``, and every second from then on until it ends.

    None, 0 and infinity are no limit. ``limit.extend(seconds)`` in the block counts anew from that moment. Limits can
    be nested: the outer one goes on. ``limit.disturbed`` says whether the code in the block took the alarm for itself.

    Works in the main thread where the platform has alarms (not on Windows); elsewhere there is no limit. It
    interrupts Python code, locks and sleeps, but not a context manager that is being left, for the first ten seconds.
    A call into compiled code that never returns, and code that catches everything, end with their process only.

    Raises:
        ValueError: when ``seconds`` is negative or not a number.
    """
    return TimeLimit(None if seconds == float("inf") else seconds)
