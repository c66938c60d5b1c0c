"""Predictions by the ids of their samples: every sample exactly once, in the order of the data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.fixes.containers import replace_tensors
from pytest_evalcheck.fixes.loops.ranks import gather_objects
from pytest_evalcheck.fixes.loops.sample_ids import plain_ids

DUPLICATES = ("drop", "refuse")
Batch = tuple[list[Any], dict[str, Any]]


class IdError(ValueError):
    """Samples that are missing, repeated, or not in the data set; ``ids`` are theirs, in order."""

    def __init__(self, message: str, ids: Sequence[Any]) -> None:
        super().__init__(message)
        self.ids = list(ids)


class JoinedPredictions(Mapping[str, Any]):
    """The fields of all samples, each in the order of ``ids``: a tensor (n, ...), or a list where rows differ."""

    def __init__(self, ids: list[Any], fields: dict[str, Any], dropped: list[Any]) -> None:
        self.ids, self.dropped, self._fields = ids, dropped, fields

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        counts = f"{len(self.ids)} samples, fields {list(self._fields)}, {len(self.dropped)} duplicates dropped"
        return f"JoinedPredictions({counts})"


class PredictionsById:
    """Rows of predictions with the ids of their samples, of this rank, to be joined over all ranks (EC502, EC503).

    Uneven shards, ranks without any sample and ragged rows need no padding. A row that a distributed sampler adds to
    even out the ranks is recognised by its id, not by its position or number.

    >>> rows = PredictionsById()
    >>> rows.add([2, 0], score=torch.tensor([0.2, 0.0]))
    >>> rows.add([1], score=torch.tensor([0.1]))
    >>> rows.join(3)["score"].tolist()
    [0.0, 0.10000000149011612, 0.20000000298023224]

    `add_ids` and `IdCollator` bring ids into the batches.

    Symptom: over ranks some samples count twice, or predictions are joined to the labels of other samples.

    Before::

        def predictions(model, loader, count, gather):
            mine = torch.cat([model.eval()(batch["x"]) for batch in loader])
            return torch.cat(gather(mine))[:count]

    After::

        from pytest_evalcheck.fixes.loops import PredictionsById

        def predictions(model, loader, count, gather):
            rows = PredictionsById()
            for batch in loader:
                rows.add(batch["ids"], logits=model.eval()(batch["x"]))
            return rows.gather(count, ranks=gather)["logits"]

    Costs: a copy of every prediction, and the ids as Python objects.

    Limits: ids have to be those of the data set. With ``fixed=("label",)`` two samples with one id are an error.

    Target: ec.loop(inputs=es.tabular(features=2, classes=3)) with over_two_ranks(model, predictions)

    Shown by: EC503.
    """

    def __init__(self, *, device: torch.device | str | None = "cpu") -> None:
        self.device = device
        self._batches: list[Batch] = []

    def __len__(self) -> int:
        return sum(len(ids) for ids, _ in self._batches)

    def add(self, ids: Any, **fields: Any) -> None:
        """Add copies of the rows of a batch: per field a tensor (n, ...), or a sequence of n objects.

        ``ids`` are n whole numbers, strings or tuples. TypeError or ValueError, and nothing added, where ids and rows
        differ in number, or the fields differ from those before.
        """
        plain = plain_ids(ids)
        if not fields:
            raise TypeError("fields: expected at least one, such as add(ids, scores=scores), got none")
        if self._batches and set(fields) != set(self._batches[0][1]):
            raise ValueError(f"fields: expected {sorted(self._batches[0][1])} as before, got {sorted(fields)}")
        for name, rows in fields.items():
            _check_rows(name, rows, len(plain))
        self._batches.append((plain, {name: self._copy(rows) for name, rows in fields.items()}))

    def reset(self) -> None:
        """Forget every row."""
        self._batches = []

    def join(self, order: int | Iterable[Any] | None = None, *, duplicates: str = "refuse") -> JoinedPredictions:
        """Join the rows of this process alone; see `gather`."""
        return _join([self._batches], order, duplicates, ())

    def gather(
        self,
        order: int | Iterable[Any] | None,
        *,
        ranks: Any = None,
        duplicates: str = "drop",
        fixed: Iterable[str] = (),
    ) -> JoinedPredictions:
        """Join the rows of all ranks, on all ranks; every rank calls this once.

        ``order`` are the ids of the data set in its order, or its length where ids are 0 to n - 1. None is for a
        data set of unknown length: ids are sorted, and missing samples are not noticed. For ``ranks`` see
        `gather_function`. Of a repeated id the row of the lowest rank counts, and there the first one;
        ``duplicates="refuse"`` raises an error instead. ``fixed`` names fields that belong to the sample, for example
        its label: where duplicates of one id differ in them, two samples have one id, which is an error.

        `IdError`, on every rank, names the ids that are missing, repeated or unknown.
        """
        names = (fixed,) if isinstance(fixed, str) else tuple(fixed)
        # No error may be raised on one rank alone before all ranks have gathered.
        mine = [(ids, replace_tensors(fields, lambda rows, _: rows.cpu(), "fields")) for ids, fields in self._batches]
        return _join(gather_objects(mine, ranks), order, duplicates, names)

    def _copy(self, rows: Any) -> Any:
        if isinstance(rows, Tensor):
            return rows.detach().to(rows.device if self.device is None else self.device, copy=True)
        if hasattr(rows, "__array__"):
            return rows.copy()
        return [self._copy(row) if isinstance(row, Tensor) else row for row in rows]


def _check_rows(name: str, rows: Any, expected: int) -> None:
    if isinstance(rows, str | bytes | Mapping) or not hasattr(rows, "__len__") or not hasattr(rows, "__getitem__"):
        raise TypeError(
            f"{name}: expected a tensor (n, ...) or a sequence, one row per sample, got {type(rows).__name__}"
        )
    if isinstance(rows, Tensor) and not rows.dim():
        raise ValueError(f"{name}: expected one row per sample, got a tensor of shape (); is it a mean of the batch?")
    if len(rows) != expected:
        raise ValueError(f"{name}: expected {expected} rows, one per id, got {len(rows)}")


def _join(parts: Sequence[list[Batch]], order: Any, duplicates: str, fixed: tuple[str, ...]) -> JoinedPredictions:
    if duplicates not in DUPLICATES:
        raise ValueError(f"duplicates: expected one of {', '.join(map(repr, DUPLICATES))}, got {duplicates!r}")
    batches = [batch for part in parts for batch in part]
    names = list(batches[0][1]) if batches else []
    for _, fields in batches:
        if set(fields) != set(names):
            raise ValueError(f"fields: expected {sorted(names)} on every rank, got {sorted(fields)} on one")
    if unknown := [name for name in fixed if batches and name not in names]:
        raise ValueError(f"fixed: expected names among {names}, got {unknown[0]!r}")
    first, repeated = _index(batches, fixed)
    if repeated and duplicates == "refuse":
        raise IdError(f"{_listed(repeated)} came more than once", repeated)
    ids = _ordered(order, first)
    chosen = [first[each] for each in ids]
    joined = {name: _select([fields[name] for _, fields in batches], chosen) for name in names}
    return JoinedPredictions(ids, joined, repeated)


def _index(batches: Sequence[Batch], fixed: tuple[str, ...]) -> tuple[dict[Hashable, tuple[int, int]], list[Any]]:
    """Return the batch and row of each id where it comes first, and the ids that come again."""
    first: dict[Hashable, tuple[int, int]] = {}
    repeated: list[Any] = []
    for number, (ids, fields) in enumerate(batches):
        for row, each in enumerate(ids):
            known = first.setdefault(each, (number, row))
            if known == (number, row):
                continue
            repeated.append(each)
            for name in fixed:
                if not _are_same(batches[known[0]][1][name][known[1]], fields[name][row]):
                    raise IdError(f"id {each!r} stands for two samples, which differ in {name!r}", [each])
    return first, repeated


def _ordered(order: Any, found: Mapping[Any, Any]) -> list[Any]:
    if order is None:
        try:
            return sorted(found)
        except TypeError:
            return list(found)
    if isinstance(order, bool | str | bytes) or (isinstance(order, int) and order < 0):
        raise TypeError(f"order: expected the number of samples, their ids, or None, got {order!r}")
    if isinstance(order, int):
        ids = list(range(order))
    else:
        ids = plain_ids(order if isinstance(order, Sequence | Tensor) else list(order))
    known = set(ids)
    if len(known) < len(ids):
        repeated = [each for each, times in Counter(ids).items() if times > 1]
        raise IdError("order: ids of the data set are repeated", repeated)
    if missing := [each for each in ids if each not in found]:
        raise IdError(f"{_listed(missing)} of {len(ids)} never came", missing)
    if unknown := [each for each in found if each not in known]:
        verb = "is" if len(unknown) == 1 else "are"
        raise IdError(f"{_listed(unknown)} {verb} not in this data set", unknown)
    return ids


def _listed(ids: Sequence[Any]) -> str:
    more = f" and {len(ids) - 8} more" if len(ids) > 8 else ""
    return ("id " if len(ids) == 1 else f"{len(ids)} ids: ") + ", ".join(map(repr, ids[:8])) + more


def _select(batches: Sequence[Any], chosen: Sequence[tuple[int, int]]) -> Any:
    if _alike(batches, lambda batch: batch.shape[1:]):
        starts = [0, *accumulate(map(len, batches))]
        index = torch.tensor([starts[number] + row for number, row in chosen], dtype=torch.int64)
        whole = torch.cat(list(batches))
        return whole.index_select(0, index.to(whole.device))
    rows = [batches[number][row] for number, row in chosen]
    return torch.stack(rows) if _alike(rows, lambda row: row.shape) else rows


def _alike(values: Iterable[Any], shape: Any) -> bool:
    kinds = {(shape(each), each.dtype, each.device) if isinstance(each, Tensor) else None for each in values}
    return len(kinds) == 1 and None not in kinds


def _are_same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())
    return bool(a == b)
