"""Streams that are given to a metric in each of the ways that its record describes."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Rows
from pytest_evalcheck.kinds.metric.cases import Stream
from pytest_evalcheck.strategies.samples import SampleStrategy


@dataclass(frozen=True, kw_only=True)
class CalledStream(Stream):
    """A stream in batches, and the number of the convention with which a case begins."""

    first: int

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[CalledStream]:
        def called(stream: Stream, first: int) -> CalledStream:
            return cls(samples=stream.samples, batches=stream.batches, first=first)

        return st.builds(called, Stream.strategy(inputs), st.integers(0, 3))

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> CalledStream | None:
        stream = Stream.of(inputs, samples)
        return None if stream is None else cls(samples=stream.samples, batches=stream.batches, first=0)

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Stream]:
        """The streams of `Stream` and a longer one of other samples, each with another convention first.

        Three samples may have the same value by accident, as where two labels are exchanged.
        """
        n = max(5, inputs.min_samples)
        # Of more samples the last ones: the first are those of the other streams.
        longer = Stream(samples=inputs.fixed(n + 3)[-n:], batches=[[*range(n - 3)], [n - 3], [n - 2, n - 1]])
        streams = enumerate([*Stream.canonical(inputs)[:3], longer])
        return [cls(samples=each.samples, batches=each.batches, first=index) for index, each in streams]
