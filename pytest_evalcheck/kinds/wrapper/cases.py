"""Batches of a wrapper: one batch, one of its rows, the same rows with more padding, and two batches."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Rows
from pytest_evalcheck.strategies.samples import Sample, SampleStrategy, Side


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Samples as one batch, in one of the containers of the target."""

    samples: Rows
    container: str

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset({"a batch of one" if len(self.samples) == 1 else "several rows"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Batch]:
        rows = inputs.rows(min_size=max(1, inputs.min_samples), max_size=4)
        return st.builds(cls, samples=rows, container=st.sampled_from(inputs.containers))

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Batch | None:
        return cls(samples=samples, container=inputs.containers[0]) if samples else None

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Batch]:
        """Several rows in every container, and one row."""
        n = max(2, inputs.min_samples)
        first, *others = inputs.containers
        sizes = [(n + 1, first), (1, first), *((n, container) for container in others)]
        return [cls(samples=inputs.fixed(size), container=name) for size, name in sizes if size >= inputs.min_samples]


@dataclass(frozen=True, kw_only=True)
class CalledBatch:
    """Samples as one batch, and the number of the convention with which a case begins."""

    samples: Rows
    first: int

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset({"a batch of one" if len(self.samples) == 1 else "several rows"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[CalledBatch]:
        rows = inputs.rows(min_size=max(1, inputs.min_samples), max_size=4)
        return st.builds(cls, samples=rows, first=st.integers(0, 3))

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[CalledBatch]:
        """Several rows, and one row."""
        sizes = (max(2, inputs.min_samples) + 1, 1)
        return [cls(samples=inputs.fixed(n), first=i) for i, n in enumerate(sizes) if n >= inputs.min_samples]


@dataclass(frozen=True, kw_only=True)
class SingleRow:
    """A batch, one of its rows, all rows in another order, and a number of blank rows to append."""

    samples: Rows
    row: int
    order: list[int]
    blanks: int

    @property
    def alone(self) -> Rows:
        """The one row."""
        return [self.samples[self.row]]

    def batches(self, blank: Sample) -> dict[str, tuple[Rows, int]]:
        """By name, the batches that contain the row, and its index there."""
        reordered = [self.samples[i] for i in self.order]
        batches = {"alone": (self.alone, 0), "in another order": (reordered, self.order.index(self.row))}
        if self.blanks:
            batches[f"beside {self.blanks} blank rows"] = ([*self.samples, *[blank] * self.blanks], self.row)
        return batches

    @property
    def conditions(self) -> frozenset[str]:
        reached = {"one row of many"} if len(self.samples) > 1 else set()
        if self.order != list(range(len(self.samples))):
            reached.add("rows in another order")
        return frozenset(reached)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[SingleRow]:
        @st.composite
        def single_row(draw: st.DrawFn) -> SingleRow:
            rows = draw(inputs.rows(min_size=2, max_size=4))
            order = draw(st.permutations(range(len(rows))))
            blanks = draw(st.integers(1, 2)) if _has_blank(inputs) else 0
            return cls(samples=rows, row=draw(st.integers(0, len(rows) - 1)), order=list(order), blanks=blanks)

        return single_row()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> SingleRow | None:
        n = len(samples)
        if n < 2:
            return None
        return cls(samples=samples, row=n - 1, order=list(range(n))[::-1], blanks=int(_has_blank(inputs)))

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[SingleRow]:
        """The last row of three, in reverse order beside a blank row, and the first of two beside more blank rows."""
        three, two = cls.of(inputs, inputs.fixed(3)), inputs.fixed(2)
        assert three is not None
        return [three, cls(samples=two, row=0, order=[1, 0], blanks=2 * three.blanks)]


@dataclass(frozen=True, kw_only=True)
class LargeBatch:
    """A few rows, and a batch of many that repeats them."""

    samples: Rows
    rows: int

    @property
    def many(self) -> Rows:
        """The rows of the batch."""
        return [self.samples[i % len(self.samples)] for i in range(self.rows)]

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset({"as many rows as a kernel takes at once" if self.rows in LARGE else "one row more"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[LargeBatch]:
        rows = inputs.rows(min_size=max(1, inputs.min_samples), max_size=3)
        sizes = st.tuples(st.sampled_from(LARGE), st.integers(0, 1)).map(sum)
        return st.builds(cls, samples=rows, rows=sizes)

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[LargeBatch]:
        """A batch of each size, and one of one row more."""
        samples = inputs.fixed(max(2, inputs.min_samples))
        return [cls(samples=samples, rows=rows) for rows in (LARGE[-1] + 1, LARGE[0])]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> LargeBatch | None:
        return cls(samples=samples[:3], rows=LARGE[-1]) if len(samples) >= max(1, inputs.min_samples) else None


LARGE = (16, 32)
"""Numbers of rows from which on code and kernels take another way: blocks of rows, a capacity, a split of the batch."""


@dataclass(frozen=True, kw_only=True)
class Padded:
    """A batch, and the same rows with more padding, possibly on the other side, possibly with a blank row."""

    samples: Rows
    side: Side
    extra: int
    blank: bool

    @property
    def conditions(self) -> frozenset[str]:
        reached = {"more padding"} if self.extra else set()
        return frozenset(reached | ({"a row of padding"} if self.blank else set()))

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Padded]:
        assert inputs.padding is not None
        sides = inputs.padding.sides
        # Three times of four: padding on the usual side without a blank row is tried by other cases too.
        often = st.integers(0, 3).map(bool)
        return st.builds(
            cls,
            samples=inputs.rows(min_size=1, max_size=3),
            side=often.map(lambda harder: sides[-1] if harder else sides[0]),
            extra=st.integers(1, 3),
            blank=often if _has_blank(inputs) else st.just(False),
        )

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Padded | None:
        if not samples or inputs.padding is None:
            return None
        return cls(samples=samples, side=inputs.padding.sides[-1], extra=2, blank=_has_blank(inputs))

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Padded]:
        """More padding on every side, with a row of padding and without."""
        if inputs.padding is None:
            return []
        rows, blanks = inputs.fixed(2), (True, False) if _has_blank(inputs) else (False,)
        sides = inputs.padding.sides[::-1]
        plain = [cls(samples=rows, side=side, extra=2, blank=blank) for side in sides for blank in blanks]
        return [*plain, cls(samples=rows[:1], side=sides[0], extra=1, blank=blanks[0])]


@dataclass(frozen=True, kw_only=True)
class TwoBatches:
    """Two batches for the same wrapper, one after the other."""

    samples: Rows
    first: list[int]
    second: list[int]

    @property
    def before(self) -> Rows:
        """The rows of the first batch."""
        return [self.samples[i] for i in self.first]

    @property
    def after(self) -> Rows:
        """The rows of the second batch."""
        return [self.samples[i] for i in self.second]

    @property
    def as_many_before(self) -> Rows:
        """The rows of the first batch, repeated or cut to the size of the second one."""
        return [self.samples[self.first[i % len(self.first)]] for i in range(len(self.second))]

    @property
    def conditions(self) -> frozenset[str]:
        same_size = len(self.first) == len(self.second)
        return frozenset({"batches of one size" if same_size else "batches of unequal sizes"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[TwoBatches]:
        @st.composite
        def two_batches(draw: st.DrawFn) -> TwoBatches:
            rows = draw(inputs.rows(min_size=2, max_size=4))
            half = len(rows) // 2 if draw(st.booleans()) else draw(st.integers(1, len(rows) - 1))
            return cls(samples=rows, first=list(range(half)), second=list(range(half, len(rows))))

        return two_batches()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> TwoBatches | None:
        del inputs
        n = len(samples)
        return cls(samples=samples, first=[0], second=list(range(1, n))) if n > 1 else None

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[TwoBatches]:
        """Two batches of one size, a smaller one before a larger one, and a larger one before a smaller one."""
        plans = [([0], [1]), ([0, 1], [2, 3]), ([0], [1, 2]), ([0, 1], [2])]
        return [cls(samples=inputs.fixed(max(map(max, plan)) + 1), first=plan[0], second=plan[1]) for plan in plans]


def _has_blank(inputs: SampleStrategy) -> bool:
    return inputs.padding is not None and inputs.padding.blank is not None
