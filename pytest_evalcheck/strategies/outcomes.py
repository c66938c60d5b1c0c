"""Predictions of three parts: a forecast with its deviation, a risk with the time of an event."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from pytest_evalcheck.strategies.samples import Bulk, Sample, SampleStrategy, float_tensor, grid

_NONFINITE = (float("nan"), float("inf"), float("-inf"))


def forecasts() -> SampleStrategy:
    """``(mean, deviation, target)`` as floats; each is collated to (N,). A deviation is above 0.

    Another order of the arguments: ``es.forecasts().packed(2, 0, 1)``.

    >>> from pytest_evalcheck import strategies as es
    >>> es.forecasts().collate([(0.5, 1.0, 0.25)])
    (tensor([0.5000]), tensor([1.]), tensor([0.2500]))
    """

    def bulk(size: Bulk) -> list[Sample]:
        rng = random.Random(size.seed)
        rows: list[Sample] = []
        for i in range(size.rows):
            target = rng.gauss(size.offset + size.scale * size.drift * i / max(1, size.rows - 1), size.scale)
            rows.append((target + rng.gauss(0, 0.5 * size.scale), size.scale * rng.choice([0.5, 1.0, 2.0]), target))
        return rows

    return SampleStrategy(
        name="forecasts",
        sample=st.tuples(grid(-4, 4), grid(0.25, 4), grid(-4, 4)),
        collate=lambda rows: _columns(rows, 3),
        right=lambda sample: (sample[2], *sample[1:]),
        wrong=lambda sample: (sample[2] + 5.5 + 2 * (sample[2] % 1.5), *sample[1:]),
        contrast=((0.5, 1.0, 0.5), (1.0, 0.5, 1.0), (2.0, 1.0, 2.0), (-1.25, 2.0, -1.25)),
        corrupted=lambda row, bad: (bad, *row[1:]),
        nonfinite=_NONFINITE,
        bulk=bulk,
    )


def survival() -> SampleStrategy:
    """``(risk, time, event)``: a score, a time above 0, and whether the event was observed then; each (N,).

    Where no event was observed, the time is the last one at which it had not come. No two samples have the same time:
    definitions differ on ties. A perfect prediction is a risk that falls with the time.

    Another order of the arguments: ``es.survival().packed(2, 1, 0)``.

    >>> from pytest_evalcheck import strategies as es
    >>> es.survival().collate([(0.5, 2.0, True)])
    (tensor([0.5000]), tensor([2.]), tensor([True]))
    """

    def collate(rows: Sequence[Sample]) -> tuple[Any, ...]:
        import torch

        events = torch.tensor([bool(row[2]) for row in rows], dtype=torch.bool)
        return (*_columns(rows, 2), events)

    return SampleStrategy(
        name="survival times",
        sample=st.tuples(grid(-4, 4), grid(0.125, 8), st.sampled_from([True, True, False])),
        collate=collate,
        min_samples=2,
        distinct=lambda sample: sample[1],
        right=lambda sample: (-sample[1], *sample[1:]),
        wrong=lambda sample: (sample[1], *sample[1:]),
        contrast=((-1.0, 1.0, True), (-2.0, 2.0, True), (-3.0, 3.0, False), (-4.0, 4.0, True)),
        corrupted=lambda row, bad: (bad, *row[1:]),
        nonfinite=_NONFINITE,
    )


def _columns(rows: Sequence[Sample], count: int) -> tuple[Any, ...]:
    return tuple(float_tensor([row[i] for row in rows], len(rows)) for i in range(count))
