"""Ids of samples, from the data set through the collate function into the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, default_collate


class IdentifiedSample(NamedTuple):
    """A sample and its id."""

    id: Any
    sample: Any


class BatchWithIds(NamedTuple):
    """The ids of the samples of a batch that is not a mapping, and the batch."""

    ids: Any
    batch: Any


def add_ids(data: Any) -> Any:
    """Return the data set with every sample as an `IdentifiedSample`; its id is its position.

    An iterable data set is numbered while it is iterated, so call this before it is cut into shards: afterwards
    several ranks or workers have the same ids, which `PredictionsById` may not notice.

    TypeError for an object with neither ``__getitem__`` and ``__len__`` nor ``__iter__``.
    """
    if isinstance(data, IterableDataset):
        return _NumberedStream(data)
    if hasattr(data, "__getitem__") and isinstance(data, Sized):
        return _NumberedItems(data)
    if hasattr(data, "__iter__"):
        return _NumberedStream(data)
    raise TypeError(f"data: expected a data set with items or an iterable one, got {type(data).__name__}")


class _NumberedItems(Dataset[IdentifiedSample]):  # type: ignore[misc]
    def __init__(self, data: Any) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> IdentifiedSample:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} in a data set of {len(self)}")
        return IdentifiedSample(index % len(self), self.data[index])


class _NumberedStream(IterableDataset[IdentifiedSample]):  # type: ignore[misc]
    def __init__(self, data: Any) -> None:
        self.data = data

    def __iter__(self) -> Iterator[IdentifiedSample]:
        for position, sample in enumerate(self.data):
            yield IdentifiedSample(position, sample)


class IdCollator:
    """A collate function that removes the ids from the samples, collates the rest, and adds the ids to the batch.

    The id of a sample is that of an `IdentifiedSample`, or ``sample[key]`` of a mapping (the key is not collated), or
    ``key(sample)`` where ``key`` is a function (everything is collated). Batches that are mappings get the ids under
    ``into``, others are returned as a `BatchWithIds`. Whole numbers become an int64 tensor, other ids a list.

    KeyError, with the position in the batch, for a sample without an id; ValueError for a collated batch that has
    ``into`` already.

    >>> collate = IdCollator()
    >>> batch = collate([{"id": 4, "x": 1.0}, {"id": 2, "x": 3.0}])
    >>> batch["ids"].tolist(), batch["x"].tolist()
    ([4, 2], [1.0, 3.0])
    """

    def __init__(
        self,
        collate: Callable[[list[Any]], Any] = default_collate,
        *,
        key: str | Callable[[Any], Any] = "id",
        into: str = "ids",
    ) -> None:
        if not callable(collate):
            raise TypeError(f"collate: expected a function of a list of samples, got {type(collate).__name__}")
        self.collate, self.key, self.into = collate, key, into

    def __call__(self, samples: Sequence[Any]) -> Any:
        split = [self._split(sample, position) for position, sample in enumerate(samples)]
        ids: Any = plain_ids([each.id for each in split])
        batch = self.collate([each.sample for each in split])
        if ids and all(isinstance(each, int) for each in ids):
            ids = torch.tensor(ids, dtype=torch.int64)
        if not hasattr(batch, "keys"):
            return BatchWithIds(ids, batch)
        if self.into in batch:
            raise ValueError(f"into: the collated batch has {self.into!r} already; choose another name with into=")
        batch[self.into] = ids
        return batch

    def _split(self, sample: Any, position: int) -> IdentifiedSample:
        if isinstance(sample, IdentifiedSample):
            return sample
        if callable(self.key):
            return IdentifiedSample(self.key(sample), sample)
        if not isinstance(sample, Mapping) or self.key not in sample:
            has = f"the keys {sorted(map(str, sample))}" if isinstance(sample, Mapping) else type(sample).__name__
            raise KeyError(
                f"sample {position} of the batch: expected an id under {self.key!r}, got {has}; "
                "wrap the data set in add_ids(), or say where the id is with key="
            )
        return IdentifiedSample(sample[self.key], {name: value for name, value in sample.items() if name != self.key})


def plain_ids(ids: Any) -> list[Any]:
    """Return ids as a list of whole numbers, strings or tuples; TypeError for anything else."""
    if isinstance(ids, Tensor) or hasattr(ids, "tolist"):
        ids = ids.tolist()
    if isinstance(ids, str | bytes) or not isinstance(ids, Sequence):
        raise TypeError(f"ids: expected one id per sample, as a tensor (n,) or a list, got {ids!r:.80}")
    plain = [one.item() if hasattr(one, "item") and getattr(one, "shape", None) in ((), None) else one for one in ids]
    for one in plain:
        if isinstance(one, float) or one is None or not _hashable(one):
            raise TypeError(f"ids: expected whole numbers, strings or tuples of them, got {one!r:.80}")
    return plain


def _hashable(one: object) -> bool:
    try:
        hash(one)
    except TypeError:
        return False
    return True
