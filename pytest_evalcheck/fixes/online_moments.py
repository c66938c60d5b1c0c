"""Mean and variance that survive a large offset, low precision and any cut of the stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

import torch
from torch import Tensor

from pytest_evalcheck.fixes import double_double as dd
from pytest_evalcheck.fixes.accumulator_validation import Values, checked_keys, from_state, real, rows
from pytest_evalcheck.fixes.compensated_sum import State, SumAccumulator


class Moments(SumAccumulator):
    """Mean and variance of a stream, from its count, its sum and its sum of squared deviations.

    A variance from the sums of x and x squared cancels as soon as the mean is large beside the spread, and a
    mean of batch variances leaves out the spread between the batches. Here each batch gives its deviations
    from its own mean, and two sets A and B are joined by the formula of Chan, Golub and LeVeque, "Algorithms
    for computing the sample variance" (The American Statistician 37(3), 1983)::

        M2 = M2_A + M2_B + (mean_A - mean_B)**2 * n_A * n_B / (n_A + n_B)

    in double-word arithmetic, so that neither the cut, the shards nor the order show in the result (EC201,
    EC203, EC208), values of any real dtype give what float64 gives (EC211), and the variance of a constant is
    0. An infinite or NaN value makes the variance NaN (EC216).

    ``shape`` is the shape of mean and variance; values have that shape after any number of leading
    dimensions. ``correction`` is that of `torch.var`: the sum of squares is divided by ``n - correction``,
    and fewer values than leave a positive number there give NaN.

    >>> moments = Moments(correction=0)
    >>> for batch in ([1e8 + 1, 1e8 + 2], [1e8 + 3]):
    ...     moments.update(batch)
    >>> {name: value.item() for name, value in moments.compute().items()}
    {'mean': 100000002.0, 'variance': 0.6666666666666666}

    Symptom: a variance of values far from zero is wrong, negative or NaN.

    Before::

        class Variance(Metric):
            def update(self, value):
                self.total = self.total + torch.stack([value.sum(), (value**2).sum()])
                self.count += len(value)

            def compute(self):
                return self.total[1] / self.count - (self.total[0] / self.count) ** 2

    After::

        from pytest_evalcheck.fixes import Moments

        variance = Moments(correction=0)

    Costs: a second pass over each batch, and four numbers of state.

    Target: ec.metric(inputs=es.values())

    Shown by: EC211.
    """

    names = ("sum", "squares")

    def __init__(
        self,
        shape: Iterable[int] = (),
        *,
        correction: int = 1,
        dtype: torch.dtype | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        if not isinstance(correction, int) or isinstance(correction, bool):
            raise TypeError(f"correction: expected a whole number such as 1, got {correction!r}")
        if correction < 0:
            raise ValueError(f"correction: expected 0 or more, got {correction}")
        self.correction = correction
        super().__init__(shape, dtype=dtype, device=device)

    def update(self, values: Values) -> None:
        """Add values of shape ``(..., *shape)``; anything else is a TypeError or ValueError and no change."""
        self._add(values)

    def compute(self) -> dict[str, Tensor]:
        """Return ``mean`` and ``variance`` so far, of shape ``shape``; NaN where there are too few values."""
        return self._value(self._state)

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of count, sum and squares, for `load_state_dict` of moments of the same shape."""
        return {"count": torch.tensor(self._state.number, dtype=torch.int64, device="cpu"), **super().state_dict()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Load copies of what `state_dict` returned; a state that does not fit raises an error and changes nothing."""
        words = [f"{name}_{word}" for name in self.names for word in dd.DoubleDouble._fields]
        checked_keys(state, ["count", *words])
        count = state["count"]
        if not isinstance(count, Tensor) or count.dtype != torch.int64 or count.dim() or count < 0:
            raise ValueError(f"state['count']: expected an int64 scalar of 0 or more, got {count!r:.80}")
        sums = from_state({key: state[key] for key in words}, self.shape, *self.names)
        self._state = self._here(sums, int(count))

    def _batch_state(self, values: Values) -> State:
        given = rows(real(values, name="values"), self.shape, name="values")
        terms = dd.words(given, self._state.sums[0].high.dtype)
        total = dd.total(terms)
        deviations = dd.subtract(terms, _mean(total, len(given)))
        return self._here([total, dd.total(dd.multiply(deviations, deviations))], len(given))

    def _join(self, a: State, b: State) -> State:
        if not a.number or not b.number:
            return b if b.number else a
        count = a.number + b.number
        between = dd.subtract(_mean(a.sums[0], a.number), _mean(b.sums[0], b.number))
        weight = dd.constant(Fraction(a.number * b.number, count), between)
        squares = dd.multiply(dd.multiply(between, between), weight)
        return State((dd.add(a.sums[0], b.sums[0]), dd.add(dd.add(a.sums[1], b.sums[1]), squares)), count)

    def _value(self, state: State) -> dict[str, Tensor]:
        total, squares = state.sums
        mean, free = _mean(total, state.number).high, state.number - self.correction
        if free <= 0:
            return {"mean": mean, "variance": torch.full_like(mean, torch.nan)}
        return {"mean": mean, "variance": dd.divide(squares, dd.constant(free, squares)).high}


def _mean(total: dd.DoubleDouble, count: int) -> dd.DoubleDouble:
    return dd.divide(total, dd.constant(count, total))
