"""Processes that code under test forks: one that comes back into the test would run all further cells once more."""

from __future__ import annotations

import contextlib
import os
import select

leave = os._exit
"""Ends the process at once, also where code under test replaced the function."""

_WAIT = 1.0
"""Seconds that the processes of a cell have to come back or to end, before the next cell starts."""


class ForkWatch:
    """Watches the processes that are forked in a cell. One that comes back from a call into the target ends there."""

    def __init__(self) -> None:
        global _watch, _registered
        self.process = os.getpid()
        self._pipe: tuple[int, int] | None = None
        if hasattr(os, "register_at_fork") and not _registered:
            os.register_at_fork(before=_open_pipe)
            _registered = True
        _watch = self

    def end_forked_process(self) -> None:
        """End this process where it is not the one of the cell, and leave a note."""
        if os.getpid() == self.process:
            return
        try:
            if self._pipe is not None:
                os.write(self._pipe[1], b"!")
        finally:
            leave(0)

    def came_back(self) -> bool:
        """Return whether a forked process came back into the test. The watch is over."""
        global _watch
        _watch = None
        self.end_forked_process()
        if self._pipe is None:
            return False
        reader, writer = self._pipe
        try:
            os.close(writer)
            # At its end where all processes of the cell are gone.
            return bool(select.select([reader], [], [], _WAIT)[0] and os.read(reader, 1))
        except OSError:  # the code under test closed it
            return False
        finally:
            with contextlib.suppress(OSError):
                os.close(reader)

    def _open_pipe(self) -> None:
        if self._pipe is None and os.getpid() == self.process:
            self._pipe = os.pipe()


_watch: ForkWatch | None = None
_registered = False


def _open_pipe() -> None:
    if _watch is not None:
        _watch._open_pipe()


def end_forked_process() -> None:
    """End this process where it is one that code under test has forked."""
    if _watch is not None:
        _watch.end_forked_process()


def belongs_to_the_suite() -> None:
    """Say that the suite itself has forked this process, so that what it calls may return here."""
    global _watch
    _watch = None
