"""Functions that score one document and are planted by checks: slow, random, counting, failing, hanging, dying.

They are sent to other processes, so they are picklable, and this module imports next to nothing.
"""

from __future__ import annotations

import os
import random
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


def mark(responses: Any, document: Any) -> float:
    """A number that no other responses and document are likely to have."""
    return float(zlib.crc32(f"{responses!r} {document!r}".encode()) % 100_003)


class CannotTravel(Exception):
    """An error that pickle cannot send to another process."""

    def __reduce__(self) -> Any:
        raise TypeError("this error cannot be pickled")


@dataclass(frozen=True)
class Slow:
    """The document that was named takes longer than all others, so that it is done last."""

    document: str
    seconds: float = 0.05

    def __call__(self, responses: Any, document: Any) -> float:
        if repr(document) == self.document:
            time.sleep(self.seconds)
        return mark(responses, document)


@dataclass(frozen=True)
class Draws:
    """A simulation: every document draws from the generators that all share."""

    def __call__(self, responses: Any, document: Any) -> tuple[float, float]:
        return mark(responses, document), sum(random.random() for _ in range(20))


@dataclass(frozen=True)
class Fails:
    """The document that was named is not scored: it raises, never ends, or ends its process."""

    document: str
    how: str

    def __call__(self, responses: Any, document: Any) -> float:
        if repr(document) == self.document:
            if self.how == "ends its process":
                os._exit(7)
            if self.how == "never ends":
                time.sleep(3600)
            raise CannotTravel("planted") if self.how.endswith("pickled") else ValueError("planted")
        if self.how == "ends its process":
            time.sleep(0.02)  # else all others are done before the dead worker is missed
        return mark(responses, document)


@dataclass(frozen=True)
class Counts:
    """Several numbers of a document by name. Every call leaves a line in a file, from whatever process."""

    names: tuple[str, ...]
    path: str
    without: tuple[str, str] = ("", "")
    """A document and the name of the number that it does not get."""
    shift: float = 0.0

    def __call__(self, responses: Any, document: Any) -> Mapping[str, float]:
        with open(self.path, "a", encoding="utf-8") as calls:
            calls.write(f"{document!r}\n")
        numbers = {name: self.shift + place + mark(responses, document) for place, name in enumerate(self.names)}
        return {name: value for name, value in numbers.items() if (repr(document), name) != self.without}
