"""Batches of prompts that follow each other into one cache: as many rows, fewer, more, and rows that only fill."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Rows
from pytest_evalcheck.kinds.decoder.cases import even, even_rows
from pytest_evalcheck.strategies.samples import SampleStrategy


@dataclass(frozen=True, kw_only=True)
class Again:
    """A batch, and another one of as many rows after it."""

    samples: Rows
    after: Rows

    @property
    def regimes(self) -> frozenset[str]:
        longer = len(self.after[0]) - len(self.samples[0])
        return frozenset({"longer after shorter"} if longer > 0 else {"shorter after longer"} if longer else set())

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Again]:
        @st.composite
        def again(draw: st.DrawFn) -> Again:
            rows = draw(even_rows(inputs, 1, 2))
            after = draw(inputs.rows(min_size=len(rows), max_size=len(rows)))
            return cls(samples=rows, after=even(after, max(map(len, after))))

        return again()


@dataclass(frozen=True, kw_only=True)
class Fewer:
    """A batch, and one of fewer rows after it."""

    samples: Rows
    after: Rows

    @property
    def regimes(self) -> frozenset[str]:
        return frozenset({"a last batch of one row"} if len(self.after) == 1 else {"a few rows less"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Fewer]:
        @st.composite
        def fewer(draw: st.DrawFn) -> Fewer:
            rows = draw(even_rows(inputs, 2, 4))
            count = draw(st.integers(1, len(rows) - 1))
            after = draw(inputs.rows(min_size=count, max_size=count))
            return cls(samples=rows, after=even(after, max(map(len, after))))

        return fewer()


@dataclass(frozen=True, kw_only=True)
class TooMany:
    """A batch of more rows than its cache is made for."""

    samples: Rows
    made_for: int

    @property
    def regimes(self) -> frozenset[str]:
        more = len(self.samples) - self.made_for
        reached = {"one row more"} if more == 1 else set()
        multiple = len(self.samples) % self.made_for == 0
        return frozenset(reached | ({"rows times choices"} if multiple else set()))

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[TooMany]:
        @st.composite
        def too_many(draw: st.DrawFn) -> TooMany:
            made_for = draw(st.integers(1, 2))
            count = draw(st.sampled_from([made_for + 1, 2 * made_for, 3 * made_for]))
            return cls(samples=draw(even_rows(inputs, count, count)), made_for=made_for)

        return too_many()


@dataclass(frozen=True, kw_only=True)
class Filled:
    """Rows of one length, and how many are added to them to fill a batch."""

    samples: Rows
    added: int

    @property
    def regimes(self) -> frozenset[str]:
        reached = {"no row added"} if not self.added else set()
        return frozenset(reached | ({"all but one row added"} if self.added and len(self.samples) == 1 else set()))

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Filled]:
        # Often some, but none is where the recipe goes wrong.
        added = st.one_of(st.integers(0, 3), st.integers(1, 3))
        return st.builds(cls, samples=even_rows(inputs, 1, 3), added=added)

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Filled | None:
        del inputs
        return cls(samples=even(samples, max(map(len, samples))), added=0) if samples else None
