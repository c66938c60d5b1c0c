"""Replace attributes of PyTorch's modules, and restore them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_ABSENT = object()


class Patches:
    """Replaced attributes, in order. An attribute that was inherited or missing is deleted again."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any]] = []
        self._callbacks: list[Callable[[], Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace `owner.name`, or add it."""
        self._replaced.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def set_existing(self, owner: Any, **values: Any) -> None:
        """Replace those attributes that this release of PyTorch has."""
        for name, value in values.items():
            if hasattr(owner, name):
                self.set(owner, name, value)

    def on_undo(self, callback: Callable[[], Any]) -> None:
        """Call this before everything is restored."""
        self._callbacks.append(callback)

    def undo(self) -> None:
        """Restore everything, the last replacement first."""
        while self._callbacks:
            self._callbacks.pop()()
        self._restore()

    def _restore(self) -> None:
        while self._replaced:
            owner, name, before = self._replaced.pop()
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Put everything back for the length of the block."""
        replaced = [(owner, name, vars(owner)[name]) for owner, name, _ in self._replaced]
        self._restore()
        try:
            yield
        finally:
            for replacement in replaced:
                self.set(*replacement)
