"""The loss of one configuration compared with another on the same samples, with a confidence interval.

Pairs show what two averages hide: losses that are all on one side, or all on some samples. Nothing here is random: the
same scores give the same interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

CONFIDENCE = 0.95
Verdict = Literal["within", "beyond", "undecided"]

_FEWEST = 20
"""Number of scores other than 0 and 1 below which a bootstrap gives intervals that are too narrow."""
_RESAMPLES = 10_000
_SEED = 0


@dataclass(frozen=True)
class Loss:
    """The loss of a variant per sample: the mean of the paired differences, and its confidence interval."""

    mean: float
    low: float
    high: float
    samples: int
    worse: int
    """Samples on which the variant scores lower."""
    better: int
    method: str

    def verdict(self, budget: float) -> Verdict:
        """Return whether the loss is shown to be within a budget, beyond it, or neither."""
        slack = 1e-9 * max(1.0, abs(budget))  # a tenth of the samples is within a budget of 0.1
        if self.high <= budget + slack:
            return "within"
        return "beyond" if self.low > budget + slack else "undecided"

    def __str__(self) -> str:
        return f"{self.mean:+.4g} per sample, {self.low:+.4g} to {self.high:+.4g}"

    @property
    def basis(self) -> str:
        """The method and the counts behind the interval."""
        return f"{self.method}: {self.samples} samples, {self.worse} worse, {self.better} better"


def loss(plain: Sequence[float], variant: Sequence[float], *, confidence: float = CONFIDENCE) -> Loss:
    """The mean of ``plain[i] - variant[i]``, with a two-sided interval.

    Scores of 0 and 1 (right or wrong) get Tango's score interval for the difference of paired proportions (T. Tango,
    Statistics in Medicine 17, 1998, 891-908): it uses the discordant pairs alone, and is not empty where there are
    none. Other scores get a paired bootstrap of the mean difference, bias-corrected and accelerated (B. Efron and
    R. Tibshirani, An Introduction to the Bootstrap, 1993, chapter 14), with a fixed seed; of fewer than 20 scores the
    interval is infinite.

    Raises:
        ValueError: when there are no scores, a different number of each, or one is NaN or infinite.
    """
    if len(plain) != len(variant) or not plain:
        raise ValueError(f"{len(plain)} and {len(variant)} scores; expected the same number of both, at least one")
    if not all(map(math.isfinite, (*plain, *variant))):
        raise ValueError("a score is NaN or infinite; expected finite ones")
    differences = [float(a) - float(b) for a, b in zip(plain, variant, strict=True)]
    worse, better = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    count = len(differences)
    if {*plain, *variant} <= {0, 1}:
        method = f"{100 * confidence:.4g} % score interval of paired proportions"
        low, high = score_interval(worse, better, count, confidence)
    else:
        method = f"{100 * confidence:.4g} % paired bootstrap"
        low, high = _bootstrap(differences, confidence) if count >= _FEWEST else (-math.inf, math.inf)
    return Loss(math.fsum(differences) / count, low, high, count, worse, better, method)


def score_interval(worse: int, better: int, count: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Tango's interval of ``(worse - better) / count``, both of them numbers of pairs that differ."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    observed = (worse - better) / count
    lower = _root(lambda delta: _score(worse, better, count, delta) - z, -1.0, observed)
    upper = _root(lambda delta: _score(worse, better, count, delta) + z, observed, 1.0)
    return lower, upper


def samples_needed(budget: float, confidence: float = CONFIDENCE) -> int:
    """The number of scores of 0 or 1 that show a loss within a budget where no pair differs; 0 where no number does."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    return math.ceil(z * z * (1 - budget) / budget) if 0 < budget < 1 else 0


def _score(worse: int, better: int, count: int, delta: float) -> float:
    """The score statistic of the hypothesis that the loss is ``delta``: it falls from above 0 to below 0."""
    a, c = 2 * count, -better * delta * (1 - delta)
    b = (2 * count + better - worse) * delta - worse - better
    other = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)  # the most likely rate of better pairs
    variance = count * (2 * other + delta * (1 - delta))
    gap = worse - better - count * delta
    if variance <= 0:
        return 0.0 if gap == 0 else math.copysign(math.inf, gap)
    return gap / math.sqrt(variance)


def _root(falling: Callable[[float], float], low: float, high: float) -> float:
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return (low + high) / 2


def _bootstrap(differences: Sequence[float], confidence: float) -> tuple[float, float]:
    import torch

    if len(set(differences)) == 1:
        return differences[0], differences[0]
    values = torch.tensor(differences, dtype=torch.float64, device="cpu")
    count, mean = len(differences), values.mean()
    generator = torch.Generator(device="cpu").manual_seed(_SEED)
    at_once = max(1, 2_000_000 // count)
    sizes = [at_once] * (_RESAMPLES // at_once) + [_RESAMPLES % at_once]
    drawn = [torch.randint(count, (size, count), generator=generator, device="cpu") for size in sizes if size]
    means = torch.cat([values[indices].mean(dim=1) for indices in drawn]).sort().values
    below = (means < mean).double().mean() + (means == mean).double().mean() / 2
    normal = NormalDist()
    bias = normal.inv_cdf(min(max(float(below), 1 / _RESAMPLES), 1 - 1 / _RESAMPLES))
    centred = values - mean
    skew = float((centred**3).sum() / (6 * (centred**2).sum() ** 1.5))
    ends = []
    for share in ((1 - confidence) / 2, (1 + confidence) / 2):
        z = bias + normal.inv_cdf(share)
        quantile = normal.cdf(bias + z / (1 - skew * z))
        ends.append(float(means[min(_RESAMPLES - 1, max(0, round(quantile * _RESAMPLES)))]))
    return ends[0], ends[1]
