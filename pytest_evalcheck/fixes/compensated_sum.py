"""A sum that low precision, order and cut do not change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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


class CompensatedSum:
    """An elementwise sum over a stream that comes out as if it had been added up exactly and rounded once.

    Values of any real dtype are widened before they are added (EC211), integers and booleans do not wrap
    (EC212), and the sum does not depend on batches, shards or order (EC201, EC203, EC208). Infinities and NaN
    follow IEEE 754: ``inf`` stays ``inf``, ``inf - inf`` is NaN, and neither is dropped (EC216).

    ``shape`` is the shape of the sum; values have that shape after any number of leading dimensions, which
    are summed. The state is a pair of float64 tensors, or of float32 tensors on a device without float64 or
    with ``dtype=torch.float32``; it stays on ``device``, and of values that are elsewhere only their sum
    travels. For the arithmetic and its sources see `pytest_evalcheck.fixes.double_double`. A partial sum beyond
    the largest number of the dtype is infinite.

    >>> total = CompensatedSum()
    >>> for batch in ([1e16, 1.0], [-1e16]):
    ...     total.update(batch)
    >>> total.compute().item()
    1.0
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
        self._sum = dw.zeros(self.shape, dw.working_dtype(device, dtype), device)

    def update(self, values: Values) -> None:
        """Add values of shape ``(..., *shape)``; anything else is a TypeError or ValueError and no change."""
        self._sum = dw.add(self._sum, self._of_batch(values))

    def forward(self, values: Values) -> Tensor:
        """Add values and return their own sum."""
        batch = self._of_batch(values)
        self._sum = dw.add(self._sum, batch)
        return batch.high

    __call__ = forward

    def compute(self) -> Tensor:
        """Return the sum so far, of shape ``shape``; zero before the first value."""
        return self._sum.high.clone()

    def reset(self) -> None:
        """Forget every value."""
        self._sum = dw.zeros(self.shape, self._sum.high.dtype, self.device)

    def merge(self, *others: CompensatedSum) -> None:
        """Add the sums of other shards, which stay as they are."""
        for other in others:
            checked_peer(other, CompensatedSum, self.shape)
        for other in others:
            self._sum = dw.add(self._sum, self._here(other._sum))

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of the two words, for `load_state_dict` of an accumulator of the same shape."""
        return as_state(sum=self._sum)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over copies of what `state_dict` gave; a state that does not fit is refused as a whole."""
        (loaded,) = from_state(state, self.shape, "sum")
        self._sum = self._here(loaded)

    def to(self, device: torch.device | str) -> CompensatedSum:
        """Move the state, in place, and return this sum."""
        device = torch.device(device)
        self._sum = dw.moved(self._sum, dw.working_dtype(device, self._wanted), device)
        return self

    @property
    def device(self) -> torch.device:
        """Where the state is."""
        return self._sum.high.device

    def _of_batch(self, values: Values) -> dw.DoubleDouble:
        batch = rows(real(values, name="values"), self.shape, name="values")
        return self._here(dw.total(dw.words(batch, self._sum.high.dtype)))

    def _here(self, words: dw.DoubleDouble) -> dw.DoubleDouble:
        return dw.moved(words, self._sum.high.dtype, self.device)
