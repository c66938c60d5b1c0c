"""A mean that is reduced once, where its sum and its count are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from pytest_evalcheck.fixes import double_double as dw
from pytest_evalcheck.fixes.accumulator_validation import (
    Values,
    as_state,
    checked_dtype,
    checked_peer,
    checked_shape,
    from_state,
    real,
    rows,
)


class WeightedMean:
    """The mean of a stream, as a sum and a total weight that are divided only when asked.

    A mean of batch means is wrong as soon as one batch, or one rank, holds fewer samples; this one does not
    depend on the cut into batches (EC201), on empty batches (EC202), on shards (EC203) or on order (EC208).
    Values of any real dtype are widened before they are added (EC211, EC212); infinities and NaN are reported
    (EC216).

    ``shape`` is the shape of the mean; values have that shape after any number of leading dimensions, which
    are averaged. The state is two pairs of float64 tensors (float32 on a device without float64 or with
    ``dtype=torch.float32``) and stays on ``device``. The mean of nothing, or of a total weight of zero, is
    NaN.

    >>> mean = WeightedMean()
    >>> for losses in ([1.0, 1.0, 1.0], [5.0]):
    ...     mean.update(losses)
    >>> mean.compute().item()
    2.0
    """

    def __init__(
        self,
        shape: Iterable[int] = (),
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.shape = checked_shape(shape)
        self._wanted = checked_dtype(dtype)
        device = torch.device(device)
        self._state = self._nothing(dw.working_dtype(device, dtype), device)

    def update(self, values: Values, weights: Values | None = None) -> None:
        """Add values of shape ``(..., *shape)``, each with weight 1 or with the weights given.

        Weights are one number, or one per row of shape ``(...)``, or one per value. They may be zero or
        negative; a zero weight does not hide a NaN, because ``0 * nan`` is NaN: leave such a row out instead.
        TypeError or ValueError, and no change, for anything else.
        """
        self._state = _joined(self._state, self._of_batch(values, weights))

    def forward(self, values: Values, weights: Values | None = None) -> Tensor:
        """Add values and return their own mean."""
        batch = self._of_batch(values, weights)
        self._state = _joined(self._state, batch)
        return _mean(batch)

    __call__ = forward

    def compute(self) -> Tensor:
        """Return the mean so far, of shape ``shape``; NaN where the weights add up to zero."""
        return _mean(self._state)

    def reset(self) -> None:
        """Forget every value."""
        self._state = self._nothing(self._state.sum.high.dtype, self.device)

    def merge(self, *others: WeightedMean) -> None:
        """Add the values of other shards, which stay as they are."""
        for other in others:
            checked_peer(other, WeightedMean, self.shape)
        for other in others:
            self._state = _joined(self._state, self._here(*other._state))

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of the words of sum and weight, for `load_state_dict` of a mean of the same shape."""
        return as_state(sum=self._state.sum, weight=self._state.weight)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over copies of what `state_dict` gave; a state that does not fit is refused as a whole."""
        self._state = self._here(*from_state(state, self.shape, "sum", "weight"))

    def to(self, device: torch.device | str) -> WeightedMean:
        """Move the state, in place, and return this mean."""
        device = torch.device(device)
        dtype = dw.working_dtype(device, self._wanted)
        self._state = _State(*(dw.moved(part, dtype, device) for part in self._state))
        return self

    @property
    def device(self) -> torch.device:
        """Where the state is."""
        return self._state.sum.high.device

    def _nothing(self, dtype: torch.dtype, device: torch.device) -> _State:
        return _State(dw.zeros(self.shape, dtype, device), dw.zeros(self.shape, dtype, device))

    def _here(self, *parts: dw.DoubleDouble) -> _State:
        return _State(*(dw.moved(part, self._state.sum.high.dtype, self.device) for part in parts))

    def _of_batch(self, values: Values, weights: Values | None) -> _State:
        given = real(values, name="values")
        wanted = self._state.sum.high.dtype
        terms = dw.words(rows(given, self.shape, name="values"), wanted)
        if weights is None:
            count = dw.constant(len(terms.high), terms)
            return self._here(dw.total(terms), dw.DoubleDouble(*(word.expand(self.shape) for word in count)))
        shaped = self._one_per_row(real(weights, name="weights"), given)
        factors = dw.moved(dw.words(shaped, wanted), terms.high.dtype, given.device)
        weight = dw.total(factors)
        return self._here(
            dw.total(dw.multiply(terms, factors)),
            dw.DoubleDouble(*(word.expand(self.shape) for word in weight)),
        )

    def _one_per_row(self, weights: Tensor, values: Tensor) -> Tensor:
        leading = values.shape[: values.dim() - len(self.shape)]
        if weights.dim() == 0:
            weights = weights.expand(leading)
        if weights.shape == leading:
            return weights.reshape(leading.numel(), *(1 for _ in self.shape))
        if weights.shape == values.shape:
            return weights.reshape(leading.numel(), *self.shape)
        raise ValueError(
            f"weights: expected one number, or one per row of shape {tuple(leading)}, or one per value "
            f"of shape {tuple(values.shape)}, got {tuple(weights.shape)}"
        )


def combine_means(means: Values, counts: Values) -> Tensor:
    """Average all samples, from batch means and the number of samples that each of them stands for.

    ``means`` and ``counts`` have one shape, or are two sequences of one length. A count of zero leaves its
    mean out, also when that mean is NaN, which is what the mean of an empty batch is; no sample at all gives
    NaN.

    >>> combine_means([1.0, 5.0], counts=[3, 1]).item()
    2.0
    """
    values, weights = real(means, name="means"), real(counts, name="counts")
    if values.shape != weights.shape:
        raise ValueError(f"counts: expected the shape of the means, {tuple(values.shape)}, got {tuple(weights.shape)}")
    result = WeightedMean(device=values.device)
    result.update(values.masked_fill((weights == 0).to(values.device), 0), weights)
    return result.compute()


class _State(NamedTuple):
    sum: dw.DoubleDouble
    weight: dw.DoubleDouble


def _joined(a: _State, b: _State) -> _State:
    return _State(dw.add(a.sum, b.sum), dw.add(a.weight, b.weight))


def _mean(state: _State) -> Tensor:
    mean = dw.divide(state.sum, state.weight).high
    # Weights that cancel leave a sum of anything over zero, which would be an infinite mean.
    return mean.masked_fill(state.weight.high == 0, torch.nan)
