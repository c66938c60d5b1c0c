"""Streams whose numbers arrive as one dtype or another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Rows
from pytest_evalcheck.kinds.metric.cases import Stream, _Batched
from pytest_evalcheck.strategies.samples import SampleStrategy

_FLOATS = (("float64", "float32"), ("float32", "float64"))
_INTEGERS = (("int64", "float32"), ("float32", "int64"))


@dataclass(frozen=True, kw_only=True)
class MixedDtypes(_Batched):
    """Samples split into batches, with a dtype for the numbers of each batch; those of an integer batch are whole."""

    dtypes: list[str]

    @property
    def typed(self) -> list[tuple[Rows, str]]:
        """The samples of each batch, with the dtype of their numbers."""
        return list(zip(self.cut, self.dtypes, strict=True))

    @property
    def conditions(self) -> frozenset[str]:
        several = {*self.dtypes}
        if len(several) < 2:
            return frozenset()
        if several == {"float32", "float64"}:
            return frozenset({"two widths"})
        return frozenset({"integers first" if self.dtypes[0] == "int64" else "integers later"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[MixedDtypes]:
        streams = Stream.strategy(inputs).filter(lambda stream: len(stream.batches) > 1)
        return st.tuples(st.sampled_from(cls._pairs(inputs)), streams).map(lambda drawn: cls._of(drawn[1], drawn[0]))

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[MixedDtypes]:
        """Every pair of dtypes."""
        n = max(4, inputs.min_samples)
        stream = Stream(samples=inputs.fixed(n), batches=[list(range(n // 2)), list(range(n // 2, n))])
        return [cls._of(stream, pair) for pair in cls._pairs(inputs)]

    @classmethod
    def _of(cls, stream: Stream, pair: Any) -> MixedDtypes:
        first, others = pair
        dtypes = [first, *[others] * (len(stream.batches) - 1)]
        return cls(samples=stream.samples, batches=stream.batches, dtypes=dtypes)

    @classmethod
    def _pairs(cls, inputs: SampleStrategy) -> tuple[tuple[str, str], ...]:
        return (*_FLOATS, *_INTEGERS) if inputs.integers else _FLOATS
