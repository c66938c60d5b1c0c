"""A data set without a length. Apart, since it takes torch to define one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch.utils.data import IterableDataset, get_worker_info

if TYPE_CHECKING:
    from pytest_evalcheck.kinds.loop.data import LoopData


class Stream(IterableDataset[Any]):  # type: ignore[misc]
    """The samples in order, or ``(id, sample)``; of several workers each gives every so many-th."""

    def __init__(self, data: LoopData, ids: bool) -> None:
        self.data, self.numbered = data, ids

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for place in range(first, len(self.data), step):
            yield (place, self.data[place]) if self.numbered else self.data[place]
