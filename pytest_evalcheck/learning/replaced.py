"""Stand-ins where a project's own tests have patched a name of a module or a class, for as long as a call runs."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import reduce
from typing import Any

from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.learning import corpus
from pytest_evalcheck.learning.values import is_of

_lock = threading.RLock()
_patched: dict[str, tuple[int, Any]] = {}
"""By place: the number of calls that run, and what was there before the first one."""


def replaced(name: str, call: Callable[[], Any]) -> Any:
    """Return what a call returns, with stand-ins where a project's own tests have patched a name of its package.

    Calls of several threads share what was patched. It is as it was once the last of them has returned.

    Args:
        name: ``package.module:function`` or ``package.module:Class`` whose calls the tests have patched.
        call: a function without arguments.

    Raises:
        UsageError: where the corpus has no such name, or a place is none of the package.
    """
    with ExitStack() as stack:
        for place in corpus.patches_of(name):
            stack.enter_context(_patch(place, name))
        return call()


@contextmanager
def _patch(place: str, name: str) -> Iterator[None]:
    if not is_of(place, name.partition(":")[0].partition(".")[0]):
        raise UsageError(f"{place} is no name of the package of {name}")
    owner, last = _owner(place)
    with _lock:
        count, before = _patched.get(place, (0, None))
        if not count:
            before = vars(owner).get(last, _patched)
            setattr(owner, last, corpus.stand_in(name, place))
        _patched[place] = (count + 1, before)
    try:
        yield
    finally:
        with _lock:
            count, before = _patched[place]
            _patched[place] = (count - 1, before)
            if count == 1 and before is _patched:  # it was that of a base class
                delattr(owner, last)
            elif count == 1:
                setattr(owner, last, before)


def _owner(place: str) -> tuple[Any, str]:
    module, _, path = place.partition(":")
    *above, last = path.split(".")
    return reduce(getattr, above, importlib.import_module(module)), last
