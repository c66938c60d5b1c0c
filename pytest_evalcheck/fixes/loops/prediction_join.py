"""Predictions by the ids of their samples: every sample exactly once, in the order of the data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.fixes.loops.ranks import gather_objects
from pytest_evalcheck.fixes.loops.sample_ids import plain_ids

DUPLICATES = ("drop", "refuse")


class IdError(ValueError):
    """Samples that are missing, came twice, or are not of this data set; ``ids`` are theirs, in order."""

    def __init__(self, message: str, ids: Sequence[Any]) -> None:
        super().__init__(message)
        self.ids = list(ids)


class JoinedPredictions(Mapping[str, Any]):
    """The fields of all samples, each in the order of ``ids``: a tensor (n, ...), or a list where rows differ."""

    def __init__(self, ids: list[Any], fields: dict[str, Any], dropped: list[Any]) -> None:
        self.ids, self.dropped, self._fields = ids, dropped, fields

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Any:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"JoinedPredictions({len(self.ids)} samples, fields {list(self._fields)}, {len(self.dropped)} duplicates dropped)"


class PredictionsById:
    """Rows of predictions, kept with the ids of their samples on this rank, and joined over all of them (EC502, EC503).

    Uneven shards, ranks without any sample and ragged rows are all the same to it, and no row is padded. What a
    distributed sampler adds to even out the ranks is known by its id, not by its place or number.

    >>> rows = PredictionsById()
    >>> rows.add([2, 0], score=torch.tensor([0.2, 0.0]))
    >>> rows.add([1], score=torch.tensor([0.1]))
    >>> rows.join(3)["score"].tolist()
    [0.0, 0.10000000149011612, 0.20000000298023224]
    """

    def __init__(self, *, device: torch.device | str | None = "cpu") -> None:
        self.device = device
        self._batches: list[tuple[list[Any], dict[str, Any]]] = []

    def __len__(self) -> int:
        return sum(len(ids) for ids, _ in self._batches)

    def add(self, ids: Any, **fields: Any) -> None:
        """Keep copies of the rows of a batch: per field a tensor (n, ...), or a sequence of n objects.

        ``ids`` are n whole numbers, strings or tuples. TypeError or ValueError, and nothing kept, where ids and rows
        differ in number, or fields are other ones than before.
        """
        plain = plain_ids(ids)
        if not fields:
            raise TypeError("fields: expected at least one, such as add(ids, scores=scores), got none")
        if self._batches and set(fields) != set(self._batches[0][1]):
            raise ValueError(f"fields: expected {sorted(self._batches[0][1])} as before, got {sorted(fields)}")
        for name, rows in fields.items():
            _check_rows(name, rows, len(plain))
        self._batches.append((plain, {name: self._own(rows) for name, rows in fields.items()}))

    def reset(self) -> None:
        """Forget every row."""
        self._batches = []

    def join(self, order: int | Iterable[Any] | None = None, *, duplicates: str = "refuse") -> JoinedPredictions:
        """Join the rows of this process alone; see `gather`."""
        return _joined([self._batches], order, duplicates, ())

    def gather(
        self,
        order: int | Iterable[Any] | None,
        *,
        ranks: Any = None,
        duplicates: str = "drop",
        fixed: Iterable[str] = (),
    ) -> JoinedPredictions:
        """Join the rows of all ranks, on all ranks; each has to call it once.

        ``order`` are the ids of the data set in its order, or its length where ids are 0 to n - 1. None is for a
        data set of unknown length: sorted ids, and a sample that is missing cannot be told. ``ranks`` is what
        `gather_function` takes. Of an id that comes again the row of the lowest rank counts, and there the first one;
        ``duplicates="refuse"`` takes none. ``fixed`` names fields that belong to the sample, its label for one: where
        duplicates of one id differ in them, two samples have one id, and that is refused.

        `IdError`, on every rank, names the ids that are missing, repeated or unknown.
        """
        names = (fixed,) if isinstance(fixed, str) else tuple(fixed)
        # Nothing may raise on one rank alone before all have met.
        mine = [(ids, _to_cpu(fields)) for ids, fields in self._batches]
        return _joined(gather_objects(mine, ranks), order, duplicates, names)

    def _own(self, rows: Any) -> Any:
        if isinstance(rows, Tensor):
            return rows.detach().to(rows.device if self.device is None else self.device, copy=True)
        if hasattr(rows, "__array__"):
            return rows.copy()
        return [self._own(row) if isinstance(row, Tensor) else row for row in rows]


def _to_cpu(fields: dict[str, Any]) -> dict[str, Any]:
    def moved(rows: Any) -> Any:
        if isinstance(rows, Tensor) or hasattr(rows, "__array__"):
            return rows.cpu() if isinstance(rows, Tensor) else rows
        return [row.cpu() if isinstance(row, Tensor) else row for row in rows]

    return {name: moved(rows) for name, rows in fields.items()}


def _check_rows(name: str, rows: Any, expected: int) -> None:
    if isinstance(rows, str | bytes | Mapping) or not hasattr(rows, "__len__") or not hasattr(rows, "__getitem__"):
        raise TypeError(
            f"{name}: expected a tensor (n, ...) or a sequence, one row a sample, got {type(rows).__name__}"
        )
    if isinstance(rows, Tensor) and not rows.dim():
        raise ValueError(f"{name}: expected one row a sample, got a tensor of shape (); is it a mean of the batch?")
    if len(rows) != expected:
        raise ValueError(f"{name}: expected {expected} rows, one per id, got {len(rows)}")


def _joined(parts: Sequence[Any], order: Any, duplicates: str, fixed: tuple[str, ...]) -> JoinedPredictions:
    if duplicates not in DUPLICATES:
        raise ValueError(f"duplicates: expected one of {', '.join(map(repr, DUPLICATES))}, got {duplicates!r}")
    batches = [batch for part in parts for batch in part]
    names = list(batches[0][1]) if batches else []
    for _, fields in batches:
        if set(fields) != set(names):
            raise ValueError(f"fields: expected {sorted(names)} on every rank, got {sorted(fields)} on one")
    if unknown := [name for name in fixed if batches and name not in names]:
        raise ValueError(f"fixed: expected names among {names}, got {unknown[0]!r}")
    first, again = _places(batches, fixed)
    if again and duplicates == "refuse":
        raise IdError(f"{_named(again)} came more than once", again)
    wanted = _wanted(order, first)
    chosen = [first[one] for one in wanted]
    return JoinedPredictions(
        wanted, {name: _rows([fields[name] for _, fields in batches], chosen) for name in names}, again
    )


def _places(batches: Sequence[Any], fixed: tuple[str, ...]) -> tuple[dict[Hashable, tuple[int, int]], list[Any]]:
    first: dict[Hashable, tuple[int, int]] = {}
    again: list[Any] = []
    for number, (ids, fields) in enumerate(batches):
        for row, one in enumerate(ids):
            known = first.setdefault(one, (number, row))
            if known == (number, row):
                continue
            again.append(one)
            for name in fixed:
                if not _same(batches[known[0]][1][name][known[1]], fields[name][row]):
                    raise IdError(f"id {one!r} stands for two samples, which differ in {name!r}", [one])
    return first, again


def _wanted(order: Any, found: Mapping[Any, Any]) -> list[Any]:
    if order is None:
        try:
            return sorted(found)
        except TypeError:
            return list(found)
    if isinstance(order, bool) or (isinstance(order, int) and order < 0) or isinstance(order, str | bytes):
        raise TypeError(f"order: expected the number of samples, their ids, or None, got {order!r}")
    wanted = list(range(order)) if isinstance(order, int) else plain_ids(order if _is_plain(order) else list(order))
    if len(known := set(wanted)) < len(wanted):
        raise IdError(
            "order: ids of the data set are repeated", [one for one, times in Counter(wanted).items() if times > 1]
        )
    if missing := [one for one in wanted if one not in found]:
        raise IdError(f"{_named(missing)} of {len(wanted)} never came", missing)
    if strange := [one for one in found if one not in known]:
        raise IdError(
            f"{_named(strange)} came and {'is' if len(strange) == 1 else 'are'} not of this data set", strange
        )
    return wanted


def _is_plain(order: Any) -> bool:
    return isinstance(order, Sequence | Tensor)


def _named(ids: Sequence[Any]) -> str:
    more = f" and {len(ids) - 8} more" if len(ids) > 8 else ""
    return ("id " if len(ids) == 1 else f"{len(ids)} ids: ") + ", ".join(map(repr, ids[:8])) + more


def _rows(batches: Sequence[Any], chosen: Sequence[tuple[int, int]]) -> Any:
    alike = {(batch.shape[1:], batch.dtype, batch.device) if isinstance(batch, Tensor) else None for batch in batches}
    if len(alike) == 1 and None not in alike:
        starts = [0, *accumulate(map(len, batches))]
        places = torch.tensor([starts[number] + row for number, row in chosen], dtype=torch.int64)
        whole = torch.cat(list(batches))
        return whole.index_select(0, places.to(whole.device))
    rows = [batches[number][row] for number, row in chosen]
    shapes = {(row.shape, row.dtype, row.device) if isinstance(row, Tensor) else None for row in rows}
    return torch.stack(rows) if len(shapes) == 1 and None not in shapes else rows


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())
    return bool(a == b)
