"""Put other things in the place of attributes of PyTorch's modules, and put them all back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_ABSENT = object()


class Patches:
    """What was replaced, in order. An attribute that was inherited or missing is deleted again."""

    def __init__(self) -> None:
        self._done: list[tuple[Any, str, Any]] = []
        self._last: list[Callable[[], Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace `owner.name`, or add it."""
        self._done.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def swap(self, owner: Any, name: str, value: Any) -> None:
        """Replace `owner.name` where this release of PyTorch has it; else do nothing."""
        if hasattr(owner, name):
            self.set(owner, name, value)

    def undo(self) -> None:
        """Put everything back, the last one first."""
        while self._last:
            self._last.pop()()
        self._put_back()

    def finally_(self, callback: Callable[[], Any]) -> None:
        """Call this when everything is undone."""
        self._last.append(callback)

    def _put_back(self) -> None:
        while self._done:
            owner, name, before = self._done.pop()
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Everything as it was, for the length of the block."""
        kept = [(owner, name, vars(owner)[name]) for owner, name, _ in self._done]
        self._put_back()
        try:
            yield
        finally:
            for each in kept:
                self.set(*each)
