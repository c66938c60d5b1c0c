"""Batches of a wrapper: alone, beside other rows, with more padding, and after another batch."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Rows, pick
from pytest_evalcheck.strategies.padding import Side
from pytest_evalcheck.strategies.samples import Sample, SampleStrategy


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Samples as one batch, in one of the containers that its wrapper takes."""

    samples: Rows
    container: str

    @property
    def regimes(self) -> frozenset[str]:
        return frozenset({"a batch of one" if len(self.samples) == 1 else "several rows"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Batch]:
        rows = inputs.rows(min_size=max(1, inputs.min_samples), max_size=4)
        return st.builds(cls, samples=rows, container=st.sampled_from(inputs.containers))

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Batch | None:
        return cls(samples=samples, container=inputs.containers[0]) if samples else None


@dataclass(frozen=True, kw_only=True)
class Rowwise:
    """A batch, one of its rows alone, all of them in another order, and blank rows to put behind them."""

    samples: Rows
    row: int
    order: list[int]
    blanks: int

    @property
    def alone(self) -> Rows:
        """The one row."""
        return [self.samples[self.row]]

    def company(self, blank: Sample) -> dict[str, tuple[Rows, int]]:
        """By name, the batches that the row is in, and its place there."""
        reordered = [self.samples[i] for i in self.order]
        company = {"alone": (self.alone, 0), "in another order": (reordered, self.order.index(self.row))}
        if self.blanks:
            company[f"beside {self.blanks} blank rows"] = ([*self.samples, *[blank] * self.blanks], self.row)
        return company

    @property
    def regimes(self) -> frozenset[str]:
        reached = {"one row of many"} if len(self.samples) > 1 else set()
        if self.order != list(range(len(self.samples))):
            reached.add("rows in another order")
        return frozenset(reached)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Rowwise]:
        @st.composite
        def rowwise(draw: st.DrawFn) -> Rowwise:
            rows = draw(inputs.rows(min_size=2, max_size=4))
            order = draw(st.permutations(range(len(rows))))
            dummies = draw(st.integers(1, 2)) if inputs.padding and inputs.padding.blank is not None else 0
            return cls(samples=rows, row=draw(st.integers(0, len(rows) - 1)), order=list(order), blanks=dummies)

        return rowwise()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Rowwise | None:
        n = len(samples)
        if n < 2:
            return None
        blank = inputs.padding is not None and inputs.padding.blank is not None
        return cls(samples=samples, row=n - 1, order=list(range(n))[::-1], blanks=int(blank))


@dataclass(frozen=True, kw_only=True)
class Padded:
    """A batch, and the same rows with more padding, perhaps on the other side, perhaps with a row of nothing else."""

    samples: Rows
    side: Side
    extra: int
    blank: bool

    @property
    def regimes(self) -> frozenset[str]:
        reached = {"more padding"} if self.extra else set()
        return frozenset(reached | ({"a row of padding"} if self.blank else set()))

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Padded]:
        assert inputs.padding is not None
        sides, has_blank = inputs.padding.sides, inputs.padding.blank is not None
        # Three times of four what is harder than padding on the usual side, which other cases try too.
        often = st.integers(0, 3).map(bool)
        return st.builds(
            cls,
            samples=inputs.rows(min_size=1, max_size=3),
            side=often.map(lambda harder: sides[-1] if harder else sides[0]),
            extra=st.integers(1, 3),
            blank=often if has_blank else st.just(False),
        )

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Padded | None:
        if not samples or inputs.padding is None:
            return None
        return cls(samples=samples, side=inputs.padding.sides[-1], extra=2, blank=inputs.padding.blank is not None)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two batches that meet the same wrapper one after the other."""

    samples: Rows
    first: list[int]
    second: list[int]

    @property
    def before(self) -> Rows:
        """The rows of the first batch."""
        return pick(self.samples, [self.first])[0]

    @property
    def after(self) -> Rows:
        """The rows of the second batch."""
        return pick(self.samples, [self.second])[0]

    @property
    def as_many_before(self) -> Rows:
        """The rows of the first batch, repeated or cut to as many as the second one has."""
        return [self.samples[self.first[i % len(self.first)]] for i in range(len(self.second))]

    @property
    def regimes(self) -> frozenset[str]:
        sizes = len(self.first), len(self.second)
        return frozenset({"batches of one size" if sizes[0] == sizes[1] else "batches of unequal sizes"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Pair]:
        @st.composite
        def pair(draw: st.DrawFn) -> Pair:
            rows = draw(inputs.rows(min_size=2, max_size=4))
            half = len(rows) // 2 if draw(st.booleans()) else draw(st.integers(1, len(rows) - 1))
            return cls(samples=rows, first=list(range(half)), second=list(range(half, len(rows))))

        return pair()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Pair | None:
        del inputs
        n = len(samples)
        return cls(samples=samples, first=[0], second=list(range(1, n))) if n > 1 else None
