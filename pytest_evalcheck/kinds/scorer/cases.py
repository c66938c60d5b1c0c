"""Documents with their responses: a few, one malformed or faulty among others, many."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Rows
from pytest_evalcheck.strategies.samples import Sample, SampleStrategy


@dataclass(frozen=True, kw_only=True)
class Documents:
    """A few documents with their responses."""

    samples: Rows

    @property
    def regimes(self) -> frozenset[str]:
        return frozenset({"one document" if len(self.samples) == 1 else "several documents"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Documents]:
        return st.builds(cls, samples=inputs.rows(min_size=max(1, inputs.min_samples), max_size=4))

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Documents | None:
        return cls(samples=samples) if samples else None


@dataclass(frozen=True, kw_only=True)
class MalformedResponse:
    """Documents, and one with a malformed response (empty, None, none at all) that is inserted at ``index``."""

    samples: Rows
    odd: Sample
    index: int

    @property
    def documents(self) -> Rows:
        """All of them."""
        return [*self.samples[: self.index], self.odd, *self.samples[self.index :]]

    @property
    def regimes(self) -> frozenset[str]:
        reached = {"an odd response first"} if self.index == 0 else set()
        return frozenset(reached | ({"an odd response last"} if self.index == len(self.samples) else set()))

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[MalformedResponse]:
        assert inputs.odd is not None
        odd = inputs.odd

        def documents(rows: Rows) -> st.SearchStrategy[MalformedResponse]:
            return st.builds(cls, samples=st.just(rows), odd=odd, index=st.integers(0, len(rows)))

        return inputs.rows(min_size=1, max_size=4).flatmap(documents)


@dataclass(frozen=True, kw_only=True)
class ManyDocuments:
    """As many documents as it takes to keep several workers busy: a few samples, repeated."""

    samples: Rows
    copies: int

    @property
    def documents(self) -> Rows:
        """All of them; neighbours are different."""
        return self.samples * self.copies

    @property
    def regimes(self) -> frozenset[str]:
        return frozenset({"fewer documents than workers" if len(self.documents) < 2 else "many documents"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[ManyDocuments]:
        few = st.builds(cls, samples=inputs.rows(min_size=1, max_size=1), copies=st.just(1))
        many = st.builds(cls, samples=inputs.rows(min_size=2, max_size=4), copies=st.sampled_from([6, 12]))
        return st.one_of(many, few, many)

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> ManyDocuments | None:
        return cls(samples=samples, copies=6) if samples else None


@dataclass(frozen=True, kw_only=True)
class FaultyDocument:
    """Different documents, of which the one at ``index`` fails."""

    samples: Rows
    index: int

    @property
    def regimes(self) -> frozenset[str]:
        reached = {"the first document"} if self.index == 0 else set()
        return frozenset(reached | ({"the last document"} if self.index == len(self.samples) - 1 else set()))

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[FaultyDocument]:
        def documents(rows: Rows) -> st.SearchStrategy[FaultyDocument]:
            return st.builds(cls, samples=st.just(rows), index=st.sampled_from([0, len(rows) - 1, 1]))

        return inputs.rows(min_size=3, max_size=5).flatmap(documents)

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> FaultyDocument | None:
        return cls(samples=samples, index=len(samples) - 1) if len(samples) > 1 else None


@dataclass(frozen=True, kw_only=True)
class SingleDocument:
    """One of several documents, and another order of all of them."""

    samples: Rows
    index: int
    order: list[int]

    @property
    def regimes(self) -> frozenset[str]:
        reached = {"one row of many"} if len(self.samples) > 1 else set()
        return frozenset(reached | ({"rows in another order"} if self.order != sorted(self.order) else set()))

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[SingleDocument]:
        def documents(rows: Rows) -> st.SearchStrategy[SingleDocument]:
            index, order = st.integers(0, len(rows) - 1), st.permutations(range(len(rows)))
            return st.builds(cls, samples=st.just(rows), index=index, order=order)

        return inputs.rows(min_size=2, max_size=4).flatmap(documents)

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> SingleDocument | None:
        last = len(samples) - 1
        return cls(samples=samples, index=last, order=list(range(len(samples)))[::-1]) if last > 0 else None


@dataclass(frozen=True, kw_only=True)
class TwoBatches:
    """A batch of documents, and another one that is scored after it."""

    samples: Rows
    after: Rows

    @property
    def regimes(self) -> frozenset[str]:
        same = len(self.samples) == len(self.after)
        return frozenset({"batches of one size" if same else "batches of unequal sizes"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[TwoBatches]:
        def batches(rows: Rows) -> st.SearchStrategy[TwoBatches]:
            sizes = st.one_of(st.just(len(rows) // 2), st.integers(1, len(rows) - 1))
            return sizes.map(lambda size: cls(samples=rows[:size], after=rows[size:]))

        return inputs.rows(min_size=2, max_size=4).flatmap(batches)

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> TwoBatches | None:
        return cls(samples=samples[:1], after=samples[1:]) if len(samples) > 1 else None
