"""A bar, or whatever the user has for one."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from pytest_evalcheck.fixes.scoring.needs import needed


class Progress:
    """Tells how many documents were finished: with tqdm, or with a function that is called with the number since."""

    def __init__(self, wanted: bool | Callable[[int], Any], total: int | None) -> None:
        self._bar: Any = None
        self._tell: Callable[[int], Any] | None = None
        if callable(wanted):
            self._tell = wanted
        elif wanted:
            self._bar = needed("tqdm.auto").tqdm(total=total, unit="doc", desc="scoring")
            self._tell = self._bar.update

    def add(self, count: int) -> None:
        """Tell of more documents."""
        if self._tell is not None:
            self._tell(count)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
