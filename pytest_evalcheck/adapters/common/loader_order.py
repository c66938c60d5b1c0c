"""In which order a loader gives the samples of a data set, for loops that tell predictions by their place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, zip_longest
from typing import Any


def order(count: int, batch_size: int, *, iterable: bool = False, workers: int = 0) -> list[int]:
    """The places of ``count`` samples as torch's loader gives them, which is theirs but for streams.

    Of a stream every worker reads every so many-th sample, and they take turns with their batches.

    >>> order(5, 2, iterable=True, workers=2)
    [0, 2, 1, 3, 4]
    """
    if not iterable or workers < 2:
        return list(range(count))
    shards = [range(first, count, workers) for first in range(workers)]
    batches = [[shard[start : start + batch_size] for start in range(0, len(shard), batch_size)] for shard in shards]
    return [place for turn in zip_longest(*batches, fillvalue=range(0)) for batch in turn for place in batch]


def apart(rows: Sequence[Any] | None, counts: Sequence[int]) -> list[list[tuple[int, Any]] | None]:
    """The records of several data sets, whose rows came one after the other; None for each where there are no rows.

    >>> apart(["a", "b", "c"], [1, 2])
    [[(0, 'a')], [(0, 'b'), (1, 'c')]]
    """
    if rows is None:
        return [None] * len(counts)
    ends = list(accumulate(counts))
    return [placed(rows[end - count : end], range(count)) for count, end in zip(counts, ends, strict=True)]


def placed(rows: Sequence[Any], places: Sequence[int]) -> list[tuple[int, Any]]:
    """Rows with the places of their samples; those beyond the last sample are counted on."""
    beyond = range(len(places), max(len(rows), len(places)))
    return list(zip([*places, *beyond], rows, strict=False))
