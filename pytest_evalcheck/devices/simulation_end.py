"""The end of a simulation: that of its block, or that of the interpreter where the block is still open."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TypeVar

_T = TypeVar("_T")


class _Ending:
    """End of a simulation, which runs once.

    An open generator is closed after the modules that its end needs are emptied, so `atexit` comes first. The modes of
    another thread cannot be left from the main one: a simulation that such a thread has open stays open.
    """

    def __init__(self) -> None:
        self.stack, self.is_over, self.thread = ExitStack(), False, threading.get_ident()
        atexit.register(self._run_at_exit)

    def run(self) -> None:
        if not self.is_over:
            self.is_over = True
            atexit.unregister(self._run_at_exit)
            self.stack.close()

    def _run_at_exit(self) -> None:
        if threading.get_ident() == self.thread:
            self.run()
        self.is_over = True


@contextmanager
def ended_at_exit(context: AbstractContextManager[_T]) -> Iterator[_T]:
    """The same context, which ends with the interpreter at the latest."""
    ending = _Ending()
    try:
        yield ending.stack.enter_context(context)
    finally:
        ending.run()
