"""A limit of time for one document, kept by the process that scores it."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

# How long after its limit a document that does not react takes its process with it, in seconds.
GRACE = 1.0


class OutOfTime(BaseException):
    """The time of a document is over; no Exception, so that a bare ``except Exception`` does not swallow it."""


class TimeLimit:
    """Stops documents that take longer than ``seconds``, within a worker process.

    First an exception is raised in the score function (where the system has alarms), which stops Python code, sleeps
    and most system calls. Code that does not react (it is in C, or catches everything) ends with its process
    `GRACE` seconds later at the latest: a thread of faulthandler, which needs no lock of the interpreter, ends it.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._alarms = seconds is not None and hasattr(signal, "setitimer")
        self._armed = False
        self._until_armed_again = 0.0
        self._before: Any = None
        self._nowhere: Any = None

    def __enter__(self) -> TimeLimit:
        if self._seconds is not None:
            if threading.current_thread() is not threading.main_thread():
                raise RuntimeError("a document can only be stopped in the main thread of its worker")
            self._nowhere = open(os.devnull, "w", encoding="utf-8")
            if self._alarms:
                self._before = signal.signal(signal.SIGALRM, self._ring)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._seconds is not None:
            faulthandler.cancel_dump_traceback_later()
            self._nowhere.close()
            if self._alarms:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, self._before)

    def start(self) -> None:
        """Start the time of the next document."""
        if self._seconds is None:
            return
        now = time.monotonic()
        if now > self._until_armed_again:
            # Arming starts a thread, so it is done once for as many documents as half of the grace allows.
            faulthandler.dump_traceback_later(self._seconds + GRACE, exit=True, file=self._nowhere)
            self._until_armed_again = now + GRACE / 2
        self._armed = True
        if self._alarms:
            signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def stop(self) -> None:
        """End the time of the document."""
        # First, as an alarm that rang just now is heard a few instructions later.
        self._armed = False
        if self._alarms:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _ring(self, _number: int, _frame: FrameType | None) -> None:
        if self._armed:
            self._armed = False
            raise OutOfTime
