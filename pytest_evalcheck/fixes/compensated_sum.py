"""A sum that precision, order and batches do not change, and the base class of accumulators made of such sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor

from pytest_evalcheck.fixes import double_double as dd
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

Self = TypeVar("Self", bound="SumAccumulator")


class State(NamedTuple):
    """The sums of an accumulator, each of its shape, and the number of rows in them."""

    sums: tuple[dd.DoubleDouble, ...]
    number: int


class SumAccumulator:
    """An accumulator whose state is a few double-double sums; a subclass computes those of a batch and their value.

    ``shape`` is the shape of the value. The sums are pairs of float64 tensors, or of float32 tensors on a device
    without float64 and with ``dtype=torch.float32``. They stay on ``device``; of values on another device only the
    sum is transferred.
    """

    names: ClassVar[tuple[str, ...]]

    def __init__(
        self, shape: Iterable[int] = (), *, dtype: torch.dtype | None = None, device: torch.device | str = "cpu"
    ) -> None:
        self.shape = checked_shape(shape)
        self._dtype = checked_dtype(dtype)
        self._state = self._zero(dd.working_dtype(torch.device(device), dtype), torch.device(device))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add values as `update` does and return what `compute` gives for these values alone."""
        return self._value(self._add(*args, **kwargs))

    __call__ = forward

    def reset(self) -> None:
        """Forget every value."""
        self._state = self._zero(self._state.sums[0].high.dtype, self.device)

    def merge(self: Self, *others: Self) -> None:
        """Add the values of other shards, which do not change."""
        for other in others:
            checked_peer(other, type(self), self.shape)
        for other in others:
            self._state = self._join(self._state, self._here(*other._state))

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of the sums, for `load_state_dict` of an accumulator of the same class and shape."""
        return as_state(**dict(zip(self.names, self._state.sums, strict=True)))

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Load copies of what `state_dict` returned; a state that does not fit raises an error and changes nothing."""
        self._state = self._here(from_state(state, self.shape, *self.names))

    def to(self: Self, device: torch.device | str) -> Self:
        """Move the state in place, and return this accumulator."""
        device = torch.device(device)
        dtype = dd.working_dtype(device, self._dtype)
        self._state = State(tuple(dd.moved(each, dtype, device) for each in self._state.sums), self._state.number)
        return self

    @property
    def device(self) -> torch.device:
        """The device of the state."""
        return self._state.sums[0].high.device

    def _add(self, *args: Any, **kwargs: Any) -> State:
        batch = self._batch_state(*args, **kwargs)
        self._state = self._join(self._state, batch)
        return batch

    def _zero(self, dtype: torch.dtype, device: torch.device) -> State:
        return State(tuple(dd.zeros(self.shape, dtype, device) for _ in self.names), 0)

    def _here(self, sums: Iterable[dd.DoubleDouble], count: int = 0) -> State:
        return State(tuple(dd.moved(each, self._state.sums[0].high.dtype, self.device) for each in sums), count)

    def _join(self, a: State, b: State) -> State:
        return State(tuple(dd.add(*pair) for pair in zip(a.sums, b.sums, strict=True)), a.number + b.number)

    def _batch_state(self, *args: Any, **kwargs: Any) -> State:
        raise NotImplementedError

    def _value(self, state: State) -> Any:
        raise NotImplementedError


class CompensatedSum(SumAccumulator):
    """An elementwise sum over a stream, equal to the exact sum rounded once.

    Values of any real dtype are widened before they are added (EC211), integers and booleans do not wrap
    (EC212), and the sum does not depend on batches, shards or order (EC201, EC203, EC208). Infinities and NaN
    follow IEEE 754: ``inf`` stays ``inf``, ``inf - inf`` is NaN, and neither is dropped (EC216).

    ``shape`` is the shape of the sum; values have that shape after any number of leading dimensions, which
    are summed. For ``dtype`` and ``device`` see `SumAccumulator`, for the arithmetic and its sources
    `pytest_evalcheck.fixes.double_double`. A partial sum beyond the largest number of the dtype is infinite.

    >>> total = CompensatedSum()
    >>> for batch in ([1e16, 1.0], [-1e16]):
    ...     total.update(batch)
    >>> total.compute().item()
    1.0

    Symptom: a sum of many or of large values loses its digits, or integers wrap around.

    Before::

        class Sum(Metric):
            def update(self, value):
                self.total = self.total.to(value.dtype) + value.sum()

            def compute(self):
                return self.total

    After::

        from pytest_evalcheck.fixes import CompensatedSum

        total = CompensatedSum()

    Costs: about ten additions for each value in place of one, and two numbers of state.

    Target: ec.metric(inputs=es.values())

    Shown by: EC211.
    """

    names = ("sum",)

    def update(self, values: Values) -> None:
        """Add values of shape ``(..., *shape)``; anything else is a TypeError or ValueError and no change."""
        self._add(values)

    def compute(self) -> Tensor:
        """Return the sum so far, of shape ``shape``; zero before the first value."""
        return self._value(self._state)

    def _batch_state(self, values: Values) -> State:
        batch = rows(real(values, name="values"), self.shape, name="values")
        return self._here([dd.total(dd.words(batch, self._state.sums[0].high.dtype))])

    def _value(self, state: State) -> Tensor:
        return state.sums[0].high.clone()
