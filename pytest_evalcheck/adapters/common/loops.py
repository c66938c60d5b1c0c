"""Shared parts of the adapters of loops: the order of samples in a loader, records by id, and a short training."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, zip_longest
from typing import Any

TRAINING_STEPS = 4
"""The number of steps of a training; ``between()`` is called after half of them."""


def training_outcome(losses: Sequence[float], model: Any) -> dict[str, Any]:
    """The loss of every step, and the parameters at the end."""
    parameters = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    return {"losses": list(losses), "parameters": parameters}


def loader_order(count: int, batch_size: int, *, iterable: bool = False, workers: int = 0) -> list[int]:
    """The ids of ``count`` samples in the order of torch's loader, which differs from theirs for streams alone.

    Each worker reads its own shard of a stream, and the workers take turns with their batches.

    >>> loader_order(5, 2, iterable=True, workers=2)
    [0, 2, 1, 3, 4]
    """
    if not iterable or workers < 2:
        return list(range(count))
    shards = [range(first, count, workers) for first in range(workers)]
    batches = [[shard[start : start + batch_size] for start in range(0, len(shard), batch_size)] for shard in shards]
    return [i for turn in zip_longest(*batches, fillvalue=range(0)) for batch in turn for i in batch]


def split_records(rows: Sequence[Any] | None, counts: Sequence[int]) -> list[list[tuple[int, Any]] | None]:
    """The records of several data sets from their joined rows; None for each where there are no rows.

    >>> split_records(["a", "b", "c"], [1, 2])
    [[(0, 'a')], [(0, 'b'), (1, 'c')]]
    """
    if rows is None:
        return [None] * len(counts)
    ends = list(accumulate(counts))
    return [with_ids(rows[end - count : end], range(count)) for count, end in zip(counts, ends, strict=True)]


def with_ids(rows: Sequence[Any], ids: Sequence[int]) -> list[tuple[int, Any]]:
    """Rows with the ids of their samples; rows beyond the last sample get the next numbers."""
    beyond = range(len(ids), max(len(rows), len(ids)))
    return list(zip([*ids, *beyond], rows, strict=False))
