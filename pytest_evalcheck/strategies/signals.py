"""Samples of signals: pairs of images and of waveforms, each as a seed, so that a large one is a short sample."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from pytest_evalcheck.strategies.samples import Bulk, Sample, SampleStrategy, float_tensor

_LEVELS = 128
"""Numbers lie on a grid of so many steps, which all floating dtypes have."""
_NEARLY = 1 / 64
"""The noise of a right prediction: without any, a ratio of signal to noise is infinite, and so is its mean."""
_MOST = 256
"""Signals of more numbers than this have no bulk: thousands of them, in half precision on a CPU, take minutes."""


def image_pairs(
    *,
    channels: int = 1,
    height: int = 12,
    width: int = 12,
    value_range: tuple[float, float] = (0, 1),
    whole: bool = False,
) -> SampleStrategy:
    """``(seed, noise)``: an image and one to compare it with; ``preds`` and ``target`` (N, C, H, W) float32.

    The target is drawn with the seed, uniformly in ``value_range``; a prediction is mixed with a noisy negative of it,
    of which ``noise`` is the share, between 0 and 1. A right prediction has 1/64 of it, since a perfect one has an
    infinite ratio of signal to noise; a wrong one has nothing else. A third number replaces the first value of the
    prediction: a corrupted sample has it.

    The sides of an image may have any length, such as 11 or more for a metric with a window of 11 x 11. With ``whole``
    all values are whole numbers; where they lie between 0 and 255 they may also arrive as uint8 (``integers``), whose
    differences wrap around. There is no ``bulk`` for images of more than 256 numbers.

    >>> from pytest_evalcheck import strategies as es
    >>> preds, target = es.image_pairs(height=12, width=20).example(2)
    >>> preds.shape, target.dtype
    (torch.Size([2, 1, 12, 20]), torch.float32)

    Raises:
        ValueError: where a size is no positive whole number, or the range is empty.
    """
    shape = shape_of(channels=channels, height=height, width=width)
    low, high = _range(value_range, whole)

    def pixels(seed: int) -> tuple[Any, Any]:
        rng = generator(seed)
        if whole:
            drawn, other = (low + counts(rng, int(high - low) + 1, shape) for _ in range(2))
        else:
            drawn, other = (low + (high - low) * counts(rng, _LEVELS + 1, shape) / _LEVELS for _ in range(2))
        return drawn, (low + high - drawn + other) / 2

    return _pairs(
        "image pairs",
        pixels,
        shape,
        unit=float(high - low),
        whole=whole,
        integers=whole and low >= 0 and high <= _UINT8,
    )


def audio(*, length: int = 128, speakers: int | None = None) -> SampleStrategy:
    """``(seed, noise)``: a waveform and an estimate of it; ``preds`` and ``target`` (N, T), or (N, S, T) of speakers.

    The target is a sum of three tones and some noise, drawn with the seed, between -1 and 1, and never silent. The
    prediction is mixed with another such signal, of which ``noise`` is the share, between 0 and 1. A right prediction
    has 1/64 of it, since a perfect one has an infinite ratio of signal to noise; a wrong one has nothing else. A third
    number replaces the first value of the prediction: a corrupted sample has it.

    There is no ``bulk`` for samples of more than 256 numbers.

    >>> from pytest_evalcheck import strategies as es
    >>> preds, target = es.audio(length=100, speakers=2).example(3)
    >>> preds.shape, bool((target.abs().amax(-1) > 0.1).all())
    (torch.Size([3, 2, 100]), True)

    Raises:
        ValueError: where ``length`` is below 8, or ``speakers`` is no positive whole number.
    """
    shape = shape_of(**({} if speakers is None else {"speakers": speakers}), length=length)
    if length < _SHORTEST:
        raise ValueError(f"length={length}; expected at least {_SHORTEST}, for tones that are not silent")

    def waves(seed: int) -> tuple[Any, Any]:
        rng = generator(seed)
        return _tones(rng, shape), _tones(rng, shape)

    return _pairs("audio", waves, shape, unit=1.0)


_UINT8 = 255
_SHORTEST = 8


def _tones(rng: Any, shape: tuple[int, ...]) -> Any:
    import numpy as np

    time = np.arange(shape[-1])
    cycles = rng.uniform(1, shape[-1] / 4, size=(*shape[:-1], 3, 1))
    phases = rng.uniform(0, 2 * math.pi, size=cycles.shape)
    tones = np.sin(2 * math.pi * cycles * time / shape[-1] + phases).mean(axis=-2)
    return np.round((tones + rng.uniform(-1, 1, size=shape) / 8) * (_LEVELS / 2)) / _LEVELS


def _pairs(
    name: str,
    drawn: Callable[[int], tuple[Any, Any]],
    shape: tuple[int, ...],
    *,
    unit: float,
    whole: bool = False,
    integers: bool = False,
) -> SampleStrategy:
    """Pairs of a target and a prediction; ``drawn`` gives, for a seed, the target and the worst prediction."""

    def pair(sample: Sample) -> tuple[Any, Any]:
        seed, noise, *replaced = sample
        target, worst = drawn(seed)
        prediction = target + noise * (worst - target)
        prediction = prediction.round() if whole else prediction
        if replaced:
            prediction[(0,) * len(shape)] = replaced[0]
        return prediction, target

    def collate(rows: Sequence[Sample]) -> tuple[Any, Any]:
        import numpy as np

        pairs = [pair(row) for row in rows]
        arrays = (np.stack([each[i] for each in pairs]) if pairs else np.zeros((0, *shape)) for i in range(2))
        predictions, targets = (float_tensor(array) for array in arrays)
        return predictions, targets

    def bulk(size: Bulk) -> list[Sample]:
        # At most half of a prediction is noise: a ratio in decibels is ill-conditioned where nothing else is left.
        rng = random.Random(size.seed)
        return [(rng.randrange(_SEEDS), rng.randint(1, 4) / 8) for _ in range(size.rows)]

    noise = st.integers(1, 8).map(lambda eighths: eighths / 8)
    return SampleStrategy(
        name=name,
        sample=st.tuples(st.integers(0, _SEEDS - 1), noise),
        collate=collate,
        right=lambda sample: (sample[0], _NEARLY),
        wrong=lambda sample: (sample[0], 1.0),
        contrast=((0, 0.5), (1, 0.5), (2, 0.5)),
        corrupted=lambda sample, bad: (*sample[:2], bad),
        nonfinite=(float("nan"), float("inf"), float("-inf")),
        bulk=bulk if math.prod(shape) <= _MOST else None,
        unit=unit,
        integers=integers,
    )


_SEEDS = 10_000


def generator(seed: int) -> Any:
    """The generator of NumPy whose numbers are promised to stay the same from release to release."""
    import numpy as np

    return np.random.RandomState(seed)


def counts(rng: Any, below: int, shape: tuple[int, ...]) -> Any:
    """Whole numbers below a limit as float64; not by ``randint``, whose numbers depend on the platform."""
    import numpy as np

    return np.floor(rng.random_sample(shape) * below)


def shape_of(**sizes: Any) -> tuple[int, ...]:
    """The sizes of a sample, by their names in error messages.

    Raises:
        ValueError: where one is no whole number of at least 1.
    """
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{name}={size!r}; expected a whole number of at least 1")
    return tuple(sizes.values())


def _range(given: Any, whole: bool) -> tuple[float, float]:
    expected = "two whole numbers" if whole else "two numbers"
    numbers = (int,) if whole else (int, float)
    right = isinstance(given, (tuple, list)) and len(given) == 2 and all(isinstance(end, numbers) for end in given)
    if not right or not all(map(math.isfinite, given)) or given[0] >= given[1]:
        raise ValueError(f"value_range={given!r}; expected {expected}, the lower one first, such as (0, 255)")
    return given[0], given[1]
