"""The objects of this process that the garbage collector tracks."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_INTERVAL = 5.0
"""Seconds that a thread waits before it asks for its turn: longer than a look takes."""

_frozen = False
"""Whether it was this module that froze objects."""


@contextmanager
def new_objects_only() -> Iterator[None]:
    """Within, the garbage collector goes through the objects alone that are made there, until `all_objects` is called.

    Going through all objects of a process that has imported a few frameworks takes a second and more, and some
    frameworks ask for it after every evaluation.
    """
    global _frozen
    outermost = not _frozen and not gc.get_freeze_count()  # objects that other code has frozen must stay frozen
    if outermost:
        gc.freeze()
        _frozen = True
    try:
        yield
    finally:
        if outermost:
            all_objects()


def all_objects() -> None:
    """Let the garbage collector go through all objects again."""
    global _frozen
    if _frozen:
        gc.unfreeze()
        _frozen = False


def live_objects(wanted: Callable[[type], bool]) -> list[Any]:
    """The tracked objects whose type is ``wanted``; asking an object for its class could run code of its own.

    Other threads do not run meanwhile: the list of all objects also refers to a tuple that another thread is building,
    and while something refers to it, that thread cannot resize it (CPython raises SystemError there).
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_INTERVAL)
    try:
        if len(sys._current_frames()) > 1:
            # Threads that wait already would ask for their turn after the old interval. This is their turn.
            time.sleep(2 * interval)
        return [item for item in gc.get_objects() if wanted(type(item))]
    finally:
        sys.setswitchinterval(interval)
