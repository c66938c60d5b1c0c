"""Functions that give several numbers and say how often they were called, and folders for caches."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

from pytest_evalcheck.kinds.scorer.stub_scorers import Counts

AGGREGATIONS: Mapping[str, Callable[[Sequence[Any]], Any]] = {"mean": fmean, "largest": max, "count": len}
"""Three that no two of give the same of the same numbers."""


@contextmanager
def counting(**more: Any) -> Iterator[Counts]:
    """A function that gives the numbers of `AGGREGATIONS`; ``more`` are fields of `Counts`."""
    with folder() as path:
        (path / "calls").touch()
        yield Counts(tuple(AGGREGATIONS), str(path / "calls"), **more)


def calls(one: Counts) -> list[str]:
    """The documents that a function was called for so far, sorted."""
    return sorted(Path(one.path).read_text(encoding="utf-8").splitlines())


def totals(scores: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The aggregated numbers by name, each over the documents that have it."""
    by_name = {name: [score[name] for score in scores if name in score] for name in AGGREGATIONS}
    return {name: AGGREGATIONS[name](values) for name, values in by_name.items() if values}


@contextmanager
def folder() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="evalcheck-") as made:
        yield Path(made)
