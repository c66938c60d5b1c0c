"""A process that names a cell which runs too long in the process of pytest.

A thread of pytest would be there in what code under test forks, would be counted among its threads, and would wait for
the lock of Python that compiled code may hold. This file is also the program of that process, and so it imports the
standard library alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from time import monotonic
from typing import Any

_PARENT_EVERY = 2.0


class StallWatch:
    """A process that writes lines to a terminal, unless it is told in time that it need not."""

    def __init__(self, terminal: Any) -> None:
        """Start it. ``terminal`` is the file of the terminal writer; nothing is done where it has no descriptor."""
        self._pipe: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        if not sys.executable:
            return
        encoding = getattr(terminal, "encoding", None) or "ascii"
        with contextlib.suppress(OSError, ValueError):  # it is in memory
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, str(os.getpid()), encoding],
                stdin=subprocess.PIPE,
                stdout=terminal.fileno(),
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt is for pytest
            )
            assert self._process.stdin is not None
            self._pipe = self._process.stdin.fileno()
            self._identity = descriptor_identity(self._pipe)
            if hasattr(os, "fork"):
                os.set_blocking(self._pipe, False)
                self._process.wait()  # the first process has ended: code under test that waits for any child has none

    def expect(self, lines: Sequence[tuple[float, str]]) -> None:
        """Write each text after so many seconds, unless this is called again before."""
        # Code under test may have closed the pipe, and opened something else at its number.
        if self._pipe is not None and descriptor_identity(self._pipe) == self._identity:
            with contextlib.suppress(OSError):
                os.write(self._pipe, json.dumps(lines).encode() + b"\n")

    def close(self) -> None:
        """End the process."""
        if self._process is None or self._process.stdin is None:
            return
        if self._pipe is not None and descriptor_identity(self._pipe) == self._identity:
            self._process.stdin.close()
        self._pipe = None
        if not hasattr(os, "fork"):
            self._process.wait()


def descriptor_identity(descriptor: int) -> tuple[int, int] | None:
    """Return the device and inode of a file descriptor, or None where it is closed."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def serve(parent: int, encoding: str) -> None:
    """Read lists of seconds and texts, a line each, until there are no more or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lines: queue.Queue[bytes] = queue.Queue()

    def read() -> None:
        for line in sys.stdin.buffer:
            lines.put(line)
        lines.put(b"")

    threading.Thread(target=read, daemon=True).start()
    due: list[tuple[float, str]] = []
    while True:
        wait = max(0.0, due[0][0] - monotonic()) if due else _PARENT_EVERY
        try:
            line = lines.get(timeout=min(wait, _PARENT_EVERY))  # what has been said comes before what is due
        except queue.Empty:
            if due and monotonic() >= due[0][0]:
                os.write(1, due.pop(0)[1].encode(encoding, "replace"))
            elif os.name == "posix":
                with contextlib.suppress(PermissionError):
                    os.kill(parent, 0)
            continue
        if not line:
            return
        now = monotonic()
        due = [(now + seconds, text) for seconds, text in json.loads(line)]


if __name__ == "__main__":
    if not hasattr(os, "fork") or not os.fork():
        with contextlib.suppress(OSError):  # the parent or the terminal is gone
            serve(int(sys.argv[1]), sys.argv[2])
    os._exit(0)
