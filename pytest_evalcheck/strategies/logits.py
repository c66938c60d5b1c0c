"""Many logits from a seed: of models that are unsure, of models that are sure, and far from 0."""

from __future__ import annotations

import random

from pytest_evalcheck.strategies.samples import Bulk

_STEP = 8
"""Large logits are multiples of this, which bfloat16 holds up to 2048: what is rounded makes no ties."""
_GAP = 48
"""A label of few classes lies at most so far below the largest logit: the exponential fits float32 and not float16."""
_NEAR = 6
"""Labels are among so many of the largest logits."""
_PLACES = 64
_CENTRES = (-96, 0, 96)
"""Centre of the logits of a row. The exponential of 96 does not fit float32, and a softmax does not need it."""


def are_large(size: Bulk) -> bool:
    """Return whether the logits of a distribution are large: where its numbers are spread, or far from 0."""
    return size.scale > 1 or bool(size.offset)


def large_logits(rng: random.Random, size: Bulk, label: int, classes: int) -> tuple[float, ...]:
    """One row of distinct logits of a model that is sure, with the label among the largest ones.

    A softmax has the same value wherever the logits of a row lie; all of them are exact in half precision.
    """
    others = [c for c in range(classes) if c != label]
    rng.shuffle(others)
    others.insert(rng.randrange(min(_NEAR, classes)), label)
    step = _STEP * max(1, _GAP // _STEP // (classes - 1))
    top = _STEP * round(size.offset / _STEP) + (rng.choice(_CENTRES) if size.scale > 1 else 0)
    places = {c: min(place, _PLACES) for place, c in enumerate(others)}
    return tuple(float(top - step * places[c]) for c in range(classes))


def binary_logit(rng: random.Random, size: Bulk, label: int) -> float:
    """One logit, mostly on the side of the label: about 1, or where the numbers are spread about 4, and up to 40.

    It is on a grid that half precision holds, without 0 and other logits of usual thresholds.
    """
    grid, centre, spread = (4.0, 4.0, 12.0) if size.scale > 1 else (0.25, 1.0, 1.5)
    limit = 10 * grid
    drawn = rng.gauss(centre if label else -centre, spread)
    return grid * (min(limit, max(-limit, drawn)) // grid) + grid / 2
