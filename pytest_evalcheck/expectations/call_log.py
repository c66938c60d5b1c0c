"""The door to the code under test: calls through it can be watched, with their arguments and results."""

from __future__ import annotations

import contextvars
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol


class Watcher(Protocol):
    """Watches the calls into code under test."""

    def called(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call, and return its result."""
        ...

    def seeded(self) -> None:
        """Note that the generators of random numbers start again."""
        ...

    def failed(self, failure: Any) -> None:
        """Note a comparison that failed, before its error is raised."""
        ...


_watcher: contextvars.ContextVar[Watcher | None] = contextvars.ContextVar("watcher", default=None)


def called(call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Return the result of a call into code under test.

    A subject and an adapter make each such call by this function, so that a script of a failure can show it. A call
    that code of this package makes by other calls of this function is shown as those.
    """
    watcher = _watcher.get()
    return call(*args, **kwargs) if watcher is None else watcher.called(call, args, kwargs)


def pickled(value: Any) -> Any:
    """Return an object after a way through pickle."""
    return called(pickle.loads, called(pickle.dumps, value))


def note_seed() -> None:
    """Report to the watcher that the generators of random numbers start again."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher.seeded()


def note_failure(failure: Any) -> None:
    """Report a comparison that failed to the watcher."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher.failed(failure)


@contextmanager
def watched_by(watcher: Watcher | None) -> Iterator[None]:
    """Watch the calls of this block and this thread; None for not at all."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


@dataclass(frozen=True)
class OnEveryRank:
    """A merge of ranks in this process, and the calls that the ranks would make in processes of their own."""

    merge: Callable[..., Any]
    calls: Sequence[Callable[[], Any]]

    def __call__(self, *args: Any) -> Any:
        return self.merge(*args)
