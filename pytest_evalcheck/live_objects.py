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
"""`new_objects_only` froze objects."""

_kept = False
"""`made_to_stay` froze objects."""

_MANY = 100_000
"""Objects: about 600 collected cells are made of them, and a process that has imported torch has twice as many."""


@contextmanager
def made_to_stay() -> Iterator[None]:
    """Within, the garbage collector does not run. Afterwards it goes once through all objects, then passes over them.

    Thousands of items of pytest stay until the session ends. Going through them while they are made, and freeing each
    where the process ends anyway, takes longer than making them. Code that goes on calls `all_objects`, or this again.
    Where few were made, going once through all that the process has imported would be what takes long.
    """
    global _kept
    all_objects()  # those of the session before are free to go
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        made = gc.get_count()[0]
        if enabled:
            gc.enable()
        if made >= _MANY and not gc.get_freeze_count():  # what other code has frozen is its own to unfreeze
            gc.collect()
            gc.freeze()
            _kept = True


@contextmanager
def new_objects_only() -> Iterator[None]:
    """Within, the garbage collector goes through the objects alone that are made there, until `all_objects` is called.

    Going through all objects of a process that has imported a few frameworks takes a second and more, and some
    frameworks ask for it after every evaluation.
    """
    global _frozen
    # Objects that other code has frozen must stay frozen.
    outermost = not _frozen and (_kept or not gc.get_freeze_count())
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
    global _frozen, _kept
    if _frozen or _kept:
        gc.unfreeze()
        _frozen = _kept = False


def live_objects(wanted: Callable[[type], bool]) -> list[Any]:
    """The tracked objects whose type is ``wanted``; asking an object for its class could run code of its own.

    Other threads do not run meanwhile: the list of all objects also refers to a tuple that another thread is building,
    and while something refers to it, that thread cannot resize it (CPython raises SystemError there). Nor does the
    garbage collector: Python 3.11 waits for ever where it starts while threads are listed (python/cpython#106883).
    """
    interval, enabled = sys.getswitchinterval(), gc.isenabled()
    gc.disable()
    sys.setswitchinterval(_INTERVAL)
    try:
        if len(sys._current_frames()) > 1:
            # Threads that wait already would ask for their turn after the old interval. This is their turn.
            time.sleep(2 * interval)
        return [item for item in gc.get_objects() if wanted(type(item))]
    finally:
        sys.setswitchinterval(interval)
        if enabled:
            gc.enable()
