"""The samples of a case as a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_evalcheck.strategies.samples import Sample


class SampleError(RuntimeError):
    """A sample could not be read: planted by the suite, as a corrupt file or a lost connection would raise one."""


@dataclass(frozen=True)
class LoopData(Sequence[Any]):
    """Samples with their collate: ``DataLoader(data, batch_size=batch_size, collate_fn=data.collate)``.

    ``data[i]`` is a sample as the inputs of the target draw it, and ``i`` its id. It is also a data set of items for
    torch, and pickles where its collate does.

    >>> data = LoopData([(1, (0.5,)), (0, (2.0,))], collate=list)
    >>> len(data), data[1], list(data.ids)
    (2, (0, (2.0,)), [0, 1])
    >>> data.failing(1)[1]
    Traceback (most recent call last):
      ...
    pytest_evalcheck.kinds.loop.data.SampleError: sample 1 of 2 cannot be read
    """

    samples: Sequence[Sample]
    collate: Callable[[Sequence[Sample]], Any]
    """Some samples to a batch, as the target's inputs make it."""
    broken: int | None = None
    """The index of a sample that cannot be read; None where all can."""

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = index.__index__()
        if not -len(self) <= place < len(self):
            raise IndexError(f"sample {place} of {len(self)}")
        place %= len(self)
        if place == self.broken:
            raise SampleError(f"sample {place} of {len(self)} cannot be read")
        return self.samples[place]

    def __iter__(self) -> Iterator[Sample]:
        return (self[place] for place in range(len(self)))

    @property
    def ids(self) -> range:
        """What records name samples by: their places in the data."""
        return range(len(self))

    def stream(self, *, ids: bool = False) -> Any:
        """The same as a torch ``IterableDataset``, which has no length; workers take turns, as torch's guide says.

        With ``ids`` it gives ``(id, sample)``.
        """
        from pytest_evalcheck.kinds.loop.iterable_data import Stream

        return Stream(self, ids)

    def failing(self, at: int) -> LoopData:
        """The same data, of which sample ``at`` raises `SampleError` when it is read."""
        return replace(self, broken=range(len(self))[at])
