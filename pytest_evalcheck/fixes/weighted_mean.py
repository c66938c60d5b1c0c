"""A mean that is reduced once, where its sum and its count are known."""

from __future__ import annotations

import torch
from torch import Tensor

from pytest_evalcheck.fixes import double_double as dd
from pytest_evalcheck.fixes.accumulator_validation import Values, real, rows
from pytest_evalcheck.fixes.compensated_sum import State, SumAccumulator


class WeightedMean(SumAccumulator):
    """The mean of a stream, as a sum and a total weight that are divided only when asked.

    A mean of batch means is wrong as soon as one batch, or one rank, holds fewer samples; this one does not depend on
    the cut into batches (EC201), on empty batches (EC202), on shards (EC203) or on order (EC208). Values of any real
    dtype are widened before they are added (EC211, EC212); infinities and NaN are reported (EC216).

    ``shape`` is the shape of the mean; values have that shape after any number of leading dimensions, which
    are averaged. For ``dtype`` and ``device`` see `SumAccumulator`. The mean of nothing, or of a total weight of
    zero, is NaN.

    >>> mean = WeightedMean()
    >>> for losses in ([1.0, 1.0, 1.0], [5.0]):
    ...     mean.update(losses)
    >>> mean.compute().item()
    2.0

    `combine_means` does the same for means that were computed elsewhere, with the number of samples in each.

    Symptom: the mean changes with the batch size, with an empty batch, or with the number of ranks.

    Before::

        class Mean(Metric):
            def update(self, value):
                self.total += value.mean()
                self.count += 1

    After::

        from pytest_evalcheck.fixes import WeightedMean

        mean = WeightedMean()

    Costs: a few additions more for each value, and four numbers of state.

    Target: ec.metric(inputs=es.values())

    Shown by: EC201, EC202.
    """

    names = ("sum", "weight")

    def update(self, values: Values, weights: Values | None = None) -> None:
        """Add values of shape ``(..., *shape)``, each with weight 1 or with the weights given.

        Weights are one number, or one per row of shape ``(...)``, or one per value. They may be zero or
        negative; a zero weight does not hide a NaN, because ``0 * nan`` is NaN: leave such a row out instead.
        TypeError or ValueError, and no change, for anything else.
        """
        self._add(values, weights)

    def compute(self) -> Tensor:
        """Return the mean so far, of shape ``shape``; NaN where the weights add up to zero."""
        return self._value(self._state)

    def _batch_state(self, values: Values, weights: Values | None = None) -> State:
        given = real(values, name="values")
        dtype = self._state.sums[0].high.dtype
        terms = dd.words(rows(given, self.shape, name="values"), dtype)
        if weights is None:
            weight = dd.constant(len(terms.high), terms)
        else:
            shaped = self._one_per_row(real(weights, name="weights"), given)
            factors = dd.moved(dd.words(shaped, dtype), terms.high.dtype, given.device)
            terms, weight = dd.multiply(terms, factors), dd.total(factors)
        return self._here([dd.total(terms), dd.DoubleDouble(*(word.expand(self.shape) for word in weight))])

    def _value(self, state: State) -> Tensor:
        total, weight = state.sums
        # Weights that cancel leave a sum of anything over zero, which would be an infinite mean.
        return dd.divide(total, weight).high.masked_fill(weight.high == 0, torch.nan)

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

    ``means`` and ``counts`` have one shape, or are two sequences of one length. A count of zero leaves its mean out,
    also when that mean is NaN, which is what the mean of an empty batch is; no sample at all gives NaN.

    >>> combine_means([1.0, 5.0], counts=[3, 1]).item()
    2.0
    """
    values, weights = real(means, name="means"), real(counts, name="counts")
    if values.shape != weights.shape:
        raise ValueError(f"counts: expected the shape of the means, {tuple(values.shape)}, got {tuple(weights.shape)}")
    result = WeightedMean(device=values.device)
    result.update(values.masked_fill((weights == 0).to(values.device), 0), weights)
    return result.compute()
