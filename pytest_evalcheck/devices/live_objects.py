"""The objects of this process that the garbage collector tracks."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

_NO_SWITCH = 1000.0
"""Seconds after which a waiting thread asks for its turn."""


def live_objects(wanted: Callable[[type], bool]) -> list[Any]:
    """The tracked objects whose type is ``wanted``; asking an object for its class could run code of its own.

    Other threads do not run meanwhile: the list of all objects also refers to a tuple that another thread is building,
    and while something refers to it, that thread cannot resize it (CPython raises SystemError there).
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_NO_SWITCH)
    try:
        return [item for item in gc.get_objects() if wanted(type(item))]
    finally:
        sys.setswitchinterval(interval)
