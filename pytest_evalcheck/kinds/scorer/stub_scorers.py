"""Functions that score one document and that checks run: slow, random, counting, failing, hanging, dying.

They are sent to other processes, so they are picklable, and this module imports next to nothing.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

AGGREGATIONS: Mapping[str, Callable[[Sequence[Any]], Any]] = {"mean": fmean, "largest": max, "count": len}
"""Three aggregations; no two of them give the same for the same numbers."""


def text_of(document: Any) -> str:
    """A document as text, whatever the order of its fields: a data set brings those of all documents into one."""
    return repr(dict(sorted(document.items()))) if isinstance(document, Mapping) else repr(document)


def stable_score(responses: Any, document: Any) -> float:
    """A number that no other responses and document are likely to have, the same in every process."""
    return float(zlib.crc32(f"{responses!r} {text_of(document)}".encode()) % 100_003)


class UnpicklableError(Exception):
    """An error that pickle cannot send to another process."""

    def __reduce__(self) -> Any:
        raise TypeError("this error cannot be pickled")


@dataclass(frozen=True)
class SlowScorer:
    """The document that is named takes longer than all others, so that it is done last."""

    document: str
    seconds: float = 0.05

    def __call__(self, responses: Any, document: Any) -> float:
        if text_of(document) == self.document:
            time.sleep(self.seconds)
        return stable_score(responses, document)


@dataclass(frozen=True)
class RandomScorer:
    """A simulation: every document draws from the generators that all share."""

    def __call__(self, responses: Any, document: Any) -> tuple[float, float]:
        return stable_score(responses, document), sum(random.random() for _ in range(20))


@dataclass(frozen=True)
class FailingScorer:
    """The document that is named is not scored: it raises, never ends, or ends its process."""

    document: str
    failure: str

    def __call__(self, responses: Any, document: Any) -> float:
        if text_of(document) == self.document:
            if self.failure == "ends its process":
                os._exit(7)
            if self.failure == "never ends":
                time.sleep(3600)
            raise UnpicklableError("planted") if self.failure.endswith("pickled") else ValueError("planted")
        if self.failure == "ends its process":
            time.sleep(0.1)  # else all others are done before the dead worker is noticed
        return stable_score(responses, document)


@dataclass(frozen=True)
class CountingScorer:
    """Several numbers of a document by name. Every call adds a line to a file, from whatever process."""

    names: tuple[str, ...]
    path: str
    without: tuple[str, str] = ("", "")
    """A document and the name of the number that it does not get."""
    shift: float = 0.0

    def __call__(self, responses: Any, document: Any) -> Mapping[str, float]:
        with open(self.path, "a", encoding="utf-8") as calls:
            calls.write(f"{text_of(document)}\n")
        score = self.shift + stable_score(responses, document)
        numbers = {name: score + index for index, name in enumerate(self.names)}
        return {name: value for name, value in numbers.items() if (text_of(document), name) != self.without}

    def calls(self) -> list[str]:
        """The documents that it was called for so far, sorted."""
        return sorted(Path(self.path).read_text(encoding="utf-8").splitlines())


@contextmanager
def counting_scorer(**fields: Any) -> Iterator[CountingScorer]:
    """A function that gives the numbers of `AGGREGATIONS`; ``fields`` are those of `CountingScorer`."""
    with tempfile.TemporaryDirectory(prefix="evalcheck-") as folder:
        path = Path(folder) / "calls"
        path.touch()
        yield CountingScorer(tuple(AGGREGATIONS), str(path), **fields)


def aggregated(scores: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The aggregated numbers by name, each over the documents that have it."""
    by_name = {name: [score[name] for score in scores if name in score] for name in AGGREGATIONS}
    return {name: AGGREGATIONS[name](values) for name, values in by_name.items() if values}
