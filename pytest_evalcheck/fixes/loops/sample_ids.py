"""Ids that travel with their samples, from the data set through the collate function into the batch."""

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
    """A batch that is no mapping, and the ids of its samples."""

    ids: Any
    batch: Any


def add_ids(data: Any) -> Any:
    """Return the data set with every sample as a `IdentifiedSample`: its position is its id.

    An iterable data set is numbered as it is iterated, so number it before it is cut into shards: numbered after, the
    ids of several ranks or workers are the same, which `PredictionsById` then refuses or cannot know.

    TypeError for what has neither ``__getitem__`` with ``__len__`` nor ``__iter__``.
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
    """A collate function that takes the ids off the samples, collates the rest as ever, and puts them in the batch.

    The id of a sample is that of a `IdentifiedSample`, or ``sample[key]`` of a mapping (which is taken out of what is
    collated), or ``key(sample)`` where ``key`` is a function (nothing is taken out). Batches that are mappings get the
    ids under ``into``, others come as a `BatchWithIds`. Whole numbers become an int64 tensor, other ids a list.

    Raises, naming the sample's place in the batch: KeyError for a sample without an id, ValueError for an id twice in a
    batch or a collated batch that has ``into`` already.

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
        taken = [self._taken(sample, place) for place, sample in enumerate(samples)]
        ids = plain_ids([one.id for one in taken])
        batch = self.collate([one.sample for one in taken])
        whole = bool(ids) and all(isinstance(one, int) for one in ids)
        carried = torch.tensor(ids, dtype=torch.int64) if whole else ids
        if not hasattr(batch, "keys"):
            return BatchWithIds(carried, batch)
        if self.into in batch:
            raise ValueError(f"into: the collated batch has {self.into!r} already; choose another name with into=")
        batch[self.into] = carried
        return batch

    def _taken(self, sample: Any, place: int) -> IdentifiedSample:
        if isinstance(sample, IdentifiedSample):
            return sample
        if callable(self.key):
            return IdentifiedSample(self.key(sample), sample)
        if not isinstance(sample, Mapping) or self.key not in sample:
            has = f"the keys {sorted(map(str, sample))}" if isinstance(sample, Mapping) else type(sample).__name__
            raise KeyError(
                f"sample {place} of the batch: expected an id under {self.key!r}, got {has}; "
                "wrap the data set in add_ids(), or say where the id is with key="
            )
        return IdentifiedSample(sample[self.key], {name: value for name, value in sample.items() if name != self.key})


def plain_ids(ids: Any) -> list[Any]:
    """Return ids as a list of whole numbers, strings or tuples; TypeError or ValueError for what is no list of ids."""
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
