"""The constants of source code that Hypothesis draws, beside those that it always knows."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


@contextmanager
def constants_of(modules: Iterable[str]) -> Iterator[None]:
    """Let Hypothesis draw the constants of these modules alone, as far as they are the user's own code.

    By itself it takes those of every local module that happens to be imported: what a cell draws would depend on the
    cells before it. A release before 6.131 goes on to do so.

    Args:
        modules: names of modules; those that are not imported, or are part of a library, are passed over.
    """
    from hypothesis.internal.conjecture import providers

    local = getattr(providers, "_get_local_constants", None)
    if local is None:
        yield
        return
    from hypothesis.internal.constants_ast import Constants, constants_from_module, is_local_module_file

    # Of the classes that Hypothesis uses itself, so that a constant is chosen by its place in a sorted set.
    own = Constants(**{name: type(known)() for name, known in vars(providers.GLOBAL_CONSTANTS).items()})
    for name in sorted({*modules}):
        module = sys.modules.get(name)
        if module is not None and is_local_module_file(getattr(module, "__file__", None) or name):
            own |= constants_from_module(module)
    providers._get_local_constants = lambda: own
    # It is filled from the constants of the moment, and does not say from which.
    providers.CONSTANTS_CACHE.cache.clear()
    try:
        yield
    finally:
        providers._get_local_constants = local
        providers.CONSTANTS_CACHE.cache.clear()
