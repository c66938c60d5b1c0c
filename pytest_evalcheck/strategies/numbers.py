"""Samples of numbers: regression pairs, values with weights, cluster labels, rows of a table."""

from __future__ import annotations

import random
from functools import partial
from typing import Any, Literal

from hypothesis import strategies as st

from pytest_evalcheck.errors import nearest
from pytest_evalcheck.strategies.samples import Bulk, Sample, SampleStrategy, float_tensor, grid, integer_tensor

Spread = Literal["small", "wide", "offset", "narrow"]
"""Distance by which numbers are from zero and from each other."""
_NONFINITE = (float("nan"), float("inf"), float("-inf"))


def regression(
    *, outputs: int | None = None, positive: bool = False, min_samples: int = 1, spread: Spread = "small"
) -> SampleStrategy:
    """``(prediction, target)`` as floats, or as tuples of ``outputs`` floats; ``preds``, ``target`` (N,) or (N, D).

    ``positive`` keeps both above zero, for errors of logarithms and ratios. With ``spread="wide"`` numbers reach 250,
    so that sums and squares wrap in uint8 and overflow in half precision; with ``"offset"`` they lie around 10,000, so
    that sums of squares cancel in float32; with ``"narrow"`` targets are nearly constant, 100 and at most 1/16 more or
    less, and so are predictions that are not wrong. This asks for more than most metrics promise.

    Raises:
        ValueError: where ``spread`` is another word.
    """
    number, centre = _numbers(spread, positive, 0.125)
    scale = _scale(spread)
    top = 2 * _SPREADS[spread][1] if positive and spread == "wide" else 5.5  # a wrong prediction is positive, too
    row = number if outputs is None else st.tuples(*[number] * outputs)
    shape = () if outputs is None else (outputs,)

    def predicted(sample: Sample, change: Any) -> Sample:
        prediction = change(sample[1]) if outputs is None else tuple(change(t) for t in sample[1])
        return prediction, sample[1]

    def wrong(target: float) -> float:
        # Reversed and shifted, for correlations with a sign and for means. Not monotonic, and so not linear: a squared
        # correlation is 1 of predictions that are merely reversed. Equal to no target.
        above = (target - centre) / scale
        return centre + scale * (top - above + 2 * (above % 1.5))

    def outputs_of(value: float) -> Any:
        return value if outputs is None else tuple(value + 0.5 * scale * d for d in range(outputs))

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
        sample=st.tuples(row, row),
        collate=lambda rows: _floats(rows, 2, shape),
        min_samples=min_samples,
        right=lambda sample: predicted(sample, lambda t: t),
        wrong=lambda sample: predicted(sample, wrong),
        # The last one has another sign than its wrong prediction.
        contrast=tuple(
            (outputs_of(centre + v * scale), outputs_of(centre + v * scale))
            for v in (0.5, 1.0, 2.0, 2.5, -1.25)[: 4 if positive else 5]
        ),
        corrupted=lambda row, bad: (bad if outputs is None else (bad, *row[0][1:]), row[1]),
        nonfinite=_NONFINITE,
        bulk=bulk,
        integers=spread in ("small", "wide"),  # 10,000 is no uint8, and what is nearly constant is no whole number
    )


def values(*, weighted: bool = False, nonnegative: bool = False, spread: Spread = "small") -> SampleStrategy:
    """A number, or with ``weighted`` a ``(number, weight)``; collated to ``value`` (N,) and ``weight`` (N,).

    ``spread`` is that of `regression`.

    Raises:
        ValueError: where ``spread`` is another word.
    """
    number, centre = _numbers(spread, nonnegative, 0)
    scale = _scale(spread)

    def bulk(size: Bulk) -> list[Sample]:
        rng = random.Random(size.seed)
        rows: list[Sample] = []
        for i in range(size.rows):
            value = rng.gauss(size.offset + size.scale * size.drift * i / max(1, size.rows - 1), size.scale)
            rows.append((value, rng.choice([0.5, 1.0, 2.0])) if weighted else value)
        return rows

    def change(row: Sample, value: float) -> Sample:
        return (value, row[1]) if weighted else value

    def wrong(value: float) -> float:
        # Shifted, spread and bent: some metrics of values ignore a shift, a spread, or both, such as the skewness.
        above = (value - centre) / scale
        return centre + scale * (2 * above + (4.5 if above >= 2 else 1.5))

    return SampleStrategy(
        name="weighted values" if weighted else "values",
        sample=st.tuples(number, st.sampled_from([0.5, 1.0, 2.0])) if weighted else number,
        collate=lambda rows: _floats(rows, 2, ()) if weighted else _floats([(row,) for row in rows], 1, ()),
        right=lambda row: row,
        wrong=lambda row: change(row, wrong(row[0] if weighted else row)),
        contrast=((0.5, 1.0), (1.0, 2.0), (2.5, 1.0)) if weighted else (0.5, 1.0, 2.5),
        corrupted=change,
        nonfinite=_NONFINITE,
        bulk=bulk,
        integers=spread in ("small", "wide"),
    )


def clusters(*, count: int = 3) -> SampleStrategy:
    """``(predicted cluster, true cluster)``; ``preds`` and ``target`` (N,) int64."""
    label = st.integers(0, count - 1)

    return SampleStrategy(
        name="clusters",
        sample=st.tuples(label, label),
        collate=lambda rows: tuple(integer_tensor([row[i] for row in rows]) for i in range(2)),
        # The names of clusters are arbitrary, so the worst clustering is one without information: a single cluster.
        right=lambda row: (row[1], row[1]),
        wrong=lambda row: (0, row[1]),
        contrast=tuple((c, c) for c in range(count)) * 2,
        integers=True,
    )


def tabular(*, features: int, classes: int) -> SampleStrategy:
    """``(label, (x1, ..., xf))``, collated to ``{"x": float32 (N, features), "labels": int64 (N,)}``.

    Features are eighths between -3 and 3 and shrink to 0. A corrupted sample has a NaN as its first feature.
    """
    for name, count in (("features", features), ("classes", classes)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"{name}={count!r}; expected a number of at least 1")
    return SampleStrategy(
        name="tabular",
        sample=st.tuples(st.integers(0, classes - 1), st.tuples(*[grid(-3.0, 3.0)] * features)),
        collate=partial(_collate_table, features),  # a loader pickles it for its workers
        corrupted=lambda row, bad: (row[0], (bad, *row[1][1:])),
    )


def _collate_table(features: int, rows: Any) -> dict[str, Any]:
    return {
        "x": float_tensor([row for _, row in rows], len(rows), features),
        "labels": integer_tensor([label for label, _ in rows]),
    }


_SPREADS: dict[str, tuple[float, float]] = {
    "small": (0, 4),
    "wide": (0, 250),
    "offset": (10_000, 4),
    "narrow": (100, 1 / 16),
}
"""Centre of numbers, and how far they reach from there."""


def _numbers(spread: str, positive: bool, least: float) -> tuple[Any, float]:
    if spread not in _SPREADS:
        known = ", ".join(map(repr, _SPREADS))
        raise ValueError(f"spread={spread!r}; expected one of {known}{nearest(str(spread), _SPREADS)}")
    centre, reach = _SPREADS[spread]
    low, step = least if positive and not centre else centre - reach, 8 if reach > 1 else 1024
    return grid(low, centre + reach, step=step), centre


def _scale(spread: Spread) -> float:
    """The size of what is small beside the reach of numbers: 1, but for numbers that are nearly constant."""
    return min(1.0, _SPREADS[spread][1] / 4)


def _floats(rows: Any, columns: int, shape: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(float_tensor([row[i] for row in rows], len(rows), *shape) for i in range(columns))
