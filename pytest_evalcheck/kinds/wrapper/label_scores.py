"""Log-probabilities that a wrapper reports of the labels of a batch, and those by the logits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_evalcheck.expectations.comparison import show
from pytest_evalcheck.expectations.failures import TargetError


@dataclass(frozen=True, kw_only=True)
class LabelScore:
    """A way in which a wrapper reports the log-probabilities of the labels of a batch."""

    score: Callable[[Any, Any], Any]
    """``score(batch, outputs)`` returns a number for each label, the sum of each row, or the mean of all labels.

    A loss is the mean with its sign changed.
    """
    logits: Callable[[Any, Any], tuple[Any, Any] | None]
    """``logits(batch, outputs)`` returns logits ``[..., classes]`` and the label ``[...]`` that each predicts, or None.

    A label below 0 does not count, nor does what ``score`` reports of it. None is of a batch without labels.
    """
    temperature: float = 1.0
    """Divisor of the logits."""

    def __post_init__(self) -> None:
        for name in ("score", "logits"):
            if not callable(getattr(self, name)):
                raise TypeError(f"{name}={getattr(self, name)!r}; expected a function")
        if not (self.temperature > 0 and math.isfinite(self.temperature)):
            raise TypeError(f"temperature={self.temperature!r}; expected a number above 0")

    def by_logits(self, logits: Any, labels: Any) -> Any:
        """Return the log-probability of each label in float64, NaN where it does not count.

        Raises:
            TargetError: where there is no logit for each label.
        """
        shapes = [list(getattr(each, "shape", ["no tensor"])) for each in (logits, labels)]
        if not shapes[0] or shapes[0][:-1] != shapes[1] or labels.is_floating_point():
            raise _no_labels(f"shapes {shapes[0]} and {shapes[1]}, of {getattr(labels, 'dtype', type(labels))}")
        if labels.numel() and int(labels.max()) >= shapes[0][-1]:
            raise _no_labels(f"the label {int(labels.max())}, and logits of {shapes[0][-1]} classes")
        shares = (logits.double() / self.temperature).log_softmax(-1)
        chosen = shares.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
        return chosen.masked_fill(labels < 0, math.nan)


def _no_labels(actual: str) -> TargetError:
    expected = "a pair: logits [..., classes], and integers [...] below the number of classes"
    return TargetError("logits() gave no logits of labels", actual=actual, expected=expected, cause="labels")


def alike(reported: Any, expected: Any, name: str) -> tuple[Any, Any]:
    """Return what is reported and what is expected in one shape: of each label that counts, of each row, or the mean.

    Raises:
        TargetError: where what is reported has none of these shapes.
    """
    import torch

    try:
        numbers = torch.as_tensor(reported, device=expected.device).detach().double()
    except (TypeError, ValueError, RuntimeError):
        numbers = expected.new_empty(0, 0, 0, 0)
    counted = ~expected.isnan()
    if numbers.dim() == 0:
        return numbers, expected.nansum() / counted.sum()
    if numbers.shape == expected.shape:
        return numbers[counted], expected[counted]
    if numbers.shape == expected.shape[:1]:
        return numbers, expected.flatten(1).nansum(1)
    size = list(expected.shape)
    raise TargetError(
        f"log_probabilities[{name!r}] reports no log-probabilities of labels",
        actual=f"{type(reported).__name__}: {show(reported)}"[:200],
        expected=f"a number for each label, {size}, the sum for each row, {size[:1]}, or one number, their mean",
        cause="log-probabilities",
    )
