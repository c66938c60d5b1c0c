"""Mean and variance that survive a large offset, low precision and any cut of the stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

import torch
from torch import Tensor

from pytest_evalcheck.fixes import double_double as dw
from pytest_evalcheck.fixes.accumulator_validation import (
    Values,
    as_state,
    checked_dtype,
    checked_keys,
    checked_peer,
    checked_shape,
    from_state,
    real,
    rows,
)


class Moments:
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
    """

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
        self.shape = checked_shape(shape)
        self.correction = correction
        self._wanted = checked_dtype(dtype)
        device = torch.device(device)
        self._state = self._nothing(dw.working_dtype(device, dtype), device)

    def update(self, values: Values) -> None:
        """Add values of shape ``(..., *shape)``; anything else is a TypeError or ValueError and no change."""
        self._state = _joined(self._state, self._of_batch(values))

    def forward(self, values: Values) -> dict[str, Tensor]:
        """Add values and return their own mean and variance."""
        batch = self._of_batch(values)
        self._state = _joined(self._state, batch)
        return self._value(batch)

    __call__ = forward

    def compute(self) -> dict[str, Tensor]:
        """Return ``mean`` and ``variance`` so far, of shape ``shape``; NaN where there are too few values."""
        return self._value(self._state)

    def reset(self) -> None:
        """Forget every value."""
        self._state = self._nothing(self._state.sum.high.dtype, self.device)

    def merge(self, *others: Moments) -> None:
        """Add the values of other shards, which stay as they are."""
        for other in others:
            checked_peer(other, Moments, self.shape)
        for other in others:
            self._state = _joined(self._state, self._here(other._state))

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of count, sum and squares, for `load_state_dict` of moments of the same shape."""
        count = torch.tensor(self._state.number, dtype=torch.int64, device="cpu")
        return {"count": count, **as_state(sum=self._state.sum, squares=self._state.squares)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over copies of what `state_dict` gave; a state that does not fit is refused as a whole."""
        words = ("sum_high", "sum_low", "squares_high", "squares_low")
        checked_keys(state, ["count", *words])
        count = state["count"]
        if not isinstance(count, Tensor) or count.dtype != torch.int64 or count.dim() or count < 0:
            raise ValueError(f"state['count']: expected an int64 scalar of 0 or more, got {count!r:.80}")
        sum_, squares = from_state({key: state[key] for key in words}, self.shape, "sum", "squares")
        self._state = self._here(_State(int(count), sum_, squares))

    def to(self, device: torch.device | str) -> Moments:
        """Move the state, in place, and return these moments."""
        device = torch.device(device)
        self._state = _moved(self._state, dw.working_dtype(device, self._wanted), device)
        return self

    @property
    def device(self) -> torch.device:
        """Where the state is."""
        return self._state.sum.high.device

    def _nothing(self, dtype: torch.dtype, device: torch.device) -> _State:
        return _State(0, dw.zeros(self.shape, dtype, device), dw.zeros(self.shape, dtype, device))

    def _here(self, state: _State) -> _State:
        return _moved(state, self._state.sum.high.dtype, self.device)

    def _of_batch(self, values: Values) -> _State:
        given = rows(real(values, name="values"), self.shape, name="values")
        terms = dw.words(given, self._state.sum.high.dtype)
        sum_ = dw.total(terms)
        deviations = dw.subtract(terms, _mean(len(given), sum_))
        return self._here(_State(len(given), sum_, dw.total(dw.multiply(deviations, deviations))))

    def _value(self, state: _State) -> dict[str, Tensor]:
        mean = _mean(state.number, state.sum).high
        free = state.number - self.correction
        if free <= 0:
            return {"mean": mean, "variance": torch.full_like(mean, torch.nan)}
        return {"mean": mean, "variance": dw.divide(state.squares, dw.constant(free, state.squares)).high}


class _State(NamedTuple):
    number: int
    sum: dw.DoubleDouble
    squares: dw.DoubleDouble


def _joined(a: _State, b: _State) -> _State:
    if not a.number or not b.number:
        return b if b.number else a
    number = a.number + b.number
    between = dw.subtract(_mean(a.number, a.sum), _mean(b.number, b.sum))
    weight = dw.constant(Fraction(a.number * b.number, number), between)
    squares = dw.multiply(dw.multiply(between, between), weight)
    return _State(number, dw.add(a.sum, b.sum), dw.add(dw.add(a.squares, b.squares), squares))


def _moved(state: _State, dtype: torch.dtype, device: torch.device) -> _State:
    return _State(state.number, dw.moved(state.sum, dtype, device), dw.moved(state.squares, dtype, device))


def _mean(number: int, sum_: dw.DoubleDouble) -> dw.DoubleDouble:
    return dw.divide(sum_, dw.constant(number, sum_))
