"""Samples of a table: a label and some features."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from hypothesis import strategies as st

from pytest_evalcheck.strategies.samples import Sample, SampleStrategy, grid

_LIMIT = 3.0


def tabular(*, features: int, classes: int) -> SampleStrategy:
    """``(label, (x1, ..., xf))``, collated to ``{"x": float32 (N, features), "labels": int64 (N,)}``.

    Features are eighths between -3 and 3 and shrink to 0. A poisoned sample has a NaN as its first feature.
    """
    for name, given in (("features", features), ("classes", classes)):
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise ValueError(f"{name}={given!r}; expected a number of at least 1")
    return SampleStrategy(
        name="tabular",
        sample=st.tuples(st.integers(0, classes - 1), st.tuples(*[grid(-_LIMIT, _LIMIT)] * features)),
        collate=partial(_collate, features),
        poisoned=_poisoned,
    )


def _collate(features: int, rows: Sequence[Sample]) -> dict[str, Any]:
    import torch

    return {
        "x": torch.tensor([row for _, row in rows], dtype=torch.float32).reshape(len(rows), features),
        "labels": torch.tensor([label for label, _ in rows], dtype=torch.int64),
    }


def _poisoned(sample: Sample, bad: float) -> Sample:
    label, row = sample
    return label, (bad, *row[1:])
