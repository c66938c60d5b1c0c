"""Samples of numbers: regression pairs, values with weights, cluster labels."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

from pytest_evalcheck.strategies.samples import Bulk, Sample, SampleStrategy, grid


def regression(*, outputs: int | None = None, positive: bool = False, min_samples: int = 1) -> SampleStrategy:
    """``(prediction, target)`` as floats, or as tuples of ``outputs`` floats; ``preds``, ``target`` (N,) or (N, D).

    ``positive`` keeps both above zero, for errors of logarithms and ratios.
    """
    number = grid(0.125, 4) if positive else grid(-4, 4)
    one = number if outputs is None else st.tuples(*[number] * outputs)
    shape = () if outputs is None else (outputs,)

    def each(row: Sample, change: Any) -> Sample:
        prediction = change(row[1]) if outputs is None else tuple(change(t) for t in row[1])
        return prediction, row[1]

    def spread(value: float) -> Any:
        return value if outputs is None else tuple(value + 0.5 * d for d in range(outputs))

    def bulk(size: Bulk) -> list[Sample]:
        rng = random.Random(size.seed)
        rows = []
        for i in range(size.rows):
            centre = size.offset + size.scale * size.drift * i / max(1, size.rows - 1)
            truth = [rng.gauss(centre, size.scale) for _ in range(outputs or 1)]
            guess = [t + rng.gauss(0, 0.5 * size.scale) for t in truth]
            if positive:
                truth, guess = [abs(t) + size.scale / 8 for t in truth], [abs(g) + size.scale / 8 for g in guess]
            rows.append((guess[0], truth[0]) if outputs is None else (tuple(guess), tuple(truth)))
        return rows

    return SampleStrategy(
        name="regression",
        sample=st.tuples(one, one),
        collate=lambda rows: _floats(rows, 2, shape),
        min_samples=min_samples,
        right=lambda row: each(row, lambda t: t),
        wrong=lambda row: each(row, lambda t: 5.5 - t),
        contrast=tuple((spread(v), spread(v)) for v in (0.5, 1.0, 2.0, 2.5)),
        poisoned=lambda row, bad: (bad if outputs is None else (bad, *row[0][1:]), row[1]),
        poisons=(float("nan"), float("inf"), float("-inf")),
        bulk=bulk,
        integers=True,
    )


def values(*, weighted: bool = False, nonnegative: bool = False) -> SampleStrategy:
    """A number, or with ``weighted`` a ``(number, weight)``; collated to ``value`` (N,) and ``weight`` (N,)."""
    number = grid(0, 4) if nonnegative else grid(-4, 4)

    def bulk(size: Bulk) -> list[Sample]:
        rng = random.Random(size.seed)
        rows: list[Sample] = []
        for i in range(size.rows):
            value = rng.gauss(size.offset + size.scale * size.drift * i / max(1, size.rows - 1), size.scale)
            rows.append((value, rng.choice([0.5, 1.0, 2.0])) if weighted else value)
        return rows

    def change(row: Sample, value: float) -> Sample:
        return (value, row[1]) if weighted else value

    return SampleStrategy(
        name="weighted values" if weighted else "values",
        sample=st.tuples(number, st.sampled_from([0.5, 1.0, 2.0])) if weighted else number,
        collate=lambda rows: _floats(rows, 2, ()) if weighted else _floats([(row,) for row in rows], 1, ()),
        right=lambda row: row,
        # Shifted and spread: some metrics of values do not see the one, some not the other.
        wrong=lambda row: change(row, 2 * (row[0] if weighted else row) + 1.5),
        contrast=((0.5, 1.0), (1.0, 2.0), (2.5, 1.0)) if weighted else (0.5, 1.0, 2.5),
        poisoned=change,
        poisons=(float("nan"), float("inf"), float("-inf")),
        bulk=bulk,
        integers=True,
    )


def clusters(*, count: int = 3) -> SampleStrategy:
    """``(predicted cluster, true cluster)``; ``preds`` and ``target`` (N,) int64."""
    label = st.integers(0, count - 1)

    def collate(rows: Any) -> Any:
        import torch

        return tuple(torch.tensor([row[i] for row in rows], dtype=torch.int64) for i in range(2))

    return SampleStrategy(
        name="clusters",
        sample=st.tuples(label, label),
        collate=collate,
        # The names of clusters mean nothing, so a wrong clustering is one that tells nothing: a single cluster.
        right=lambda row: (row[1], row[1]),
        wrong=lambda row: (0, row[1]),
        contrast=tuple((c, c) for c in range(count)) * 2,
        integers=True,
    )


def _floats(rows: Any, columns: int, shape: tuple[int, ...]) -> tuple[Any, ...]:
    import torch

    return tuple(
        torch.tensor([row[i] for row in rows], dtype=torch.float32).reshape(len(rows), *shape) for i in range(columns)
    )
