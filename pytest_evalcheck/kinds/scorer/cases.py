"""Documents with their responses: a few, one odd among others, many."""

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
        del inputs
        return cls(samples=samples) if samples else None


@dataclass(frozen=True, kw_only=True)
class Odd:
    """Documents, and one with an odd response (empty, None, none at all) that is put among them."""

    samples: Rows
    odd: Sample
    place: int

    @property
    def mixed(self) -> Rows:
        """All of them."""
        return [*self.samples[: self.place], self.odd, *self.samples[self.place :]]

    @property
    def regimes(self) -> frozenset[str]:
        reached = {"an odd response first"} if self.place == 0 else set()
        if self.place == len(self.samples):
            reached.add("an odd response last")
        return frozenset(reached)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Odd]:
        @st.composite
        def odd(draw: st.DrawFn) -> Odd:
            assert inputs.odd is not None
            rows = draw(inputs.rows(min_size=1, max_size=4))
            return cls(samples=rows, odd=draw(inputs.odd), place=draw(st.integers(0, len(rows))))

        return odd()


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """As many documents as it takes for workers to get in each other's way: a few samples, again and again."""

    samples: Rows
    copies: int

    @property
    def documents(self) -> Rows:
        """All of them, so that neighbours are not the same."""
        return self.samples * self.copies

    @property
    def regimes(self) -> frozenset[str]:
        return frozenset({"fewer documents than workers" if len(self.documents) < 2 else "many documents"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Crowd]:
        few = st.builds(cls, samples=inputs.rows(min_size=1, max_size=1), copies=st.just(1))
        many = st.builds(cls, samples=inputs.rows(min_size=2, max_size=4), copies=st.sampled_from([6, 12]))
        return st.one_of(many, few, many)

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Crowd | None:
        del inputs
        return cls(samples=samples, copies=6) if samples else None


@dataclass(frozen=True, kw_only=True)
class OneOfMany:
    """Different documents, and one of them to which something happens."""

    samples: Rows
    place: int

    @property
    def regimes(self) -> frozenset[str]:
        reached = {"the first document"} if self.place == 0 else set()
        return frozenset(reached | ({"the last document"} if self.place == len(self.samples) - 1 else set()))

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[OneOfMany]:
        @st.composite
        def one(draw: st.DrawFn) -> OneOfMany:
            rows = draw(inputs.rows(min_size=3, max_size=5))
            return cls(samples=rows, place=draw(st.sampled_from([0, len(rows) - 1, 1])))

        return one()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> OneOfMany | None:
        del inputs
        return cls(samples=samples, place=len(samples) - 1) if len(samples) > 1 else None
