"""A loop over real ranks that says nothing about them: it shards the data itself, or each rank gets its share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_evalcheck.kinds.loop.record import Evaluated, LoopData


@dataclass(frozen=True)
class _WatchedData(LoopData):
    read: set[int] = field(default_factory=set)
    """Indices of the samples that were read in this process."""

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice):
            self.read.add(range(len(self))[index])
        return super().__getitem__(index)


@dataclass(frozen=True)
class RankReading:
    """Result of the evaluation of a rank, and how it came about, as it is sent to the process that compares."""

    result: Any
    communicates: bool
    """True if it called a collective of ``torch.distributed``."""
    whole: bool
    """True if it read every sample."""


def share_of(data: LoopData) -> LoopData:
    """The samples of this rank of the group: every world-size-th, so that shares of uneven length differ by one."""
    import torch.distributed as dist

    return replace(data, samples=data.samples[dist.get_rank() :: dist.get_world_size()])


def with_ids_of_the_whole(result: Evaluated | None) -> Evaluated | None:
    """The result of `share_of` with the ids that its records have in the whole data."""
    import torch.distributed as dist

    if result is None or result.records is None:
        return result
    rank, world = dist.get_rank(), dist.get_world_size()
    return Evaluated(result.numbers, [(rank + world * i, fields) for i, fields in result.records])


def watched(data: LoopData, evaluate: Callable[[LoopData], Evaluated | None]) -> RankReading:
    """Evaluate in this rank, and note whether all samples were read and whether ranks communicated."""
    own = _WatchedData(data.samples, data.collate, data.broken)
    before = _collectives()
    result = evaluate(own)
    return RankReading(result, _collectives() > before, len(own.read) == len(own))


def _collectives() -> int:
    """The number of collectives that this process has called, over all its groups."""
    from torch.distributed import distributed_c10d

    return sum(group._get_sequence_number_for_group() for group in distributed_c10d._world.pg_map)
