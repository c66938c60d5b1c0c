"""Batches of a wrapper: one batch, one of its rows, the same rows with more padding, and two batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Conditions, Draws, Given, Plans, Rows, SamplesAndPlan
from pytest_evalcheck.kinds.common.convention_cases import ConventionCase
from pytest_evalcheck.strategies.samples import Sample, SampleStrategy, Side


@dataclass(frozen=True, kw_only=True)
class _Rows(SamplesAndPlan):
    """Samples as one batch."""

    MOST, FIRST = 4, 2
    CONDITIONS: ClassVar[Conditions] = {
        "a batch of one": lambda case: len(case.samples) == 1,
        "several rows": lambda case: len(case.samples) != 1,
    }

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Several rows, and one row."""
        return [(size,) for size in (n + 1, 1) if size >= inputs.min_samples]


@dataclass(frozen=True, kw_only=True)
class Batch(_Rows):
    """Samples as one batch, in one of the containers of the target."""

    container: str

    PLAN: ClassVar[Draws] = {"container": lambda inputs, _: st.sampled_from(inputs.containers)}

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Batch | None:
        return cls(samples=samples, container=inputs.containers[0]) if samples else None

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Several rows in every container, and one row."""
        first, *others = inputs.containers
        return [*((*plan, first) for plan in super().first_plans(inputs, n)), *((n, container) for container in others)]


@dataclass(frozen=True, kw_only=True)
class ConventionBatch(ConventionCase, _Rows):
    """Samples as one batch, and the number of the convention with which a case begins."""


@dataclass(frozen=True, kw_only=True)
class SingleRow(SamplesAndPlan):
    """A batch, one of its rows, all rows in another order, and a number of blank rows to append."""

    row: int
    order: list[int]
    blanks: int

    FEWEST, MOST = 2, 4
    CONDITIONS: ClassVar[Conditions] = {
        "one row of many": lambda case: len(case.samples) > 1,
        "rows in another order": lambda case: case.order != sorted(case.order),
    }

    @property
    def alone(self) -> Rows:
        """The one row."""
        return [self.samples[self.row]]

    def batches(self, blank: Sample) -> dict[str, tuple[Rows, int]]:
        """Batches that contain the row, by name, and its index there."""
        reordered = [self.samples[i] for i in self.order]
        batches = {"alone": (self.alone, 0), "in another order": (reordered, self.order.index(self.row))}
        if self.blanks:
            batches[f"beside {self.blanks} blank rows"] = ([*self.samples, *[blank] * self.blanks], self.row)
        return batches

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        order = list(draw(st.permutations(range(len(rows)))))
        blanks = draw(st.integers(1, 2)) if _has_blank(inputs) else 0
        return {"row": draw(st.integers(0, len(rows) - 1)), "order": order, "blanks": blanks}

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> SingleRow | None:
        n = len(samples)
        return cls.made(inputs, samples, n - 1, [*range(n)][::-1], int(_has_blank(inputs))) if n > 1 else None

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """The last row of three, in reverse order beside a blank row, and the first of two beside more blank rows."""
        blanks = int(_has_blank(inputs))
        return [(3, 2, [2, 1, 0], blanks), (2, 0, [1, 0], 2 * blanks)]


LARGE = (16, 32)
"""Numbers of rows from which on code and kernels take another way: blocks of rows, a capacity, a split of the batch."""


@dataclass(frozen=True, kw_only=True)
class LargeBatch(SamplesAndPlan):
    """A few rows, and a batch of many that repeats them."""

    rows: int

    MOST, FIRST = 3, 2
    PLAN: ClassVar[Draws] = {"rows": lambda *_: st.tuples(st.sampled_from(LARGE), st.integers(0, 1)).map(sum)}
    CONDITIONS: ClassVar[Conditions] = {
        "as many rows as a kernel takes at once": lambda case: case.rows in LARGE,
        "one row more": lambda case: case.rows not in LARGE,
    }

    @property
    def repeated_rows(self) -> Rows:
        """Rows of the batch."""
        return [self.samples[i % len(self.samples)] for i in range(self.rows)]

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """A batch of each size, and one of one row more."""
        return [(n, LARGE[-1] + 1), (n, LARGE[0])]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> LargeBatch | None:
        return cls(samples=samples[:3], rows=LARGE[-1]) if len(samples) >= cls.fewest(inputs) else None


@dataclass(frozen=True, kw_only=True)
class Padded(SamplesAndPlan):
    """A batch, and the same rows with more padding, possibly on the other side, possibly with a blank row."""

    side: Side
    extra: int
    blank: bool

    MOST = 3
    CONDITIONS: ClassVar[Conditions] = {
        "more padding": lambda case: case.extra > 0,
        "a row of padding": lambda case: case.blank,
    }

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        # Three times of four: padding on the usual side without a blank row is tried by other cases too.
        often = st.integers(0, 3).map(bool)
        side = _sides(inputs)[0 if draw(often) else -1]
        return {"side": side, "extra": draw(st.integers(1, 3)), "blank": _has_blank(inputs) and draw(often)}

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Padded | None:
        sides = _sides(inputs)
        return cls.made(inputs, samples, sides[0], 2, _has_blank(inputs)) if samples and sides else None

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """More padding on every side, with a row of padding and without."""
        blanks, sides = (True, False) if _has_blank(inputs) else (False,), _sides(inputs)
        plain = [(2, side, 2, blank) for side in sides for blank in blanks]
        return [*plain, (inputs.fixed(2)[:1], sides[0], 1, blanks[0])] if sides else []


@dataclass(frozen=True, kw_only=True)
class TwoBatches(SamplesAndPlan):
    """Two batches for the same wrapper, one after the other."""

    first: list[int]
    second: list[int]

    FEWEST, MOST = 2, 4
    GIVEN: ClassVar[Given] = lambda _, n: ([0], [*range(1, n)]) if n > 1 else None
    CONDITIONS: ClassVar[Conditions] = {
        "batches of one size": lambda case: len(case.first) == len(case.second),
        "batches of unequal sizes": lambda case: len(case.first) != len(case.second),
    }

    @property
    def first_rows(self) -> Rows:
        """Rows of the first batch."""
        return [self.samples[i] for i in self.first]

    @property
    def second_rows(self) -> Rows:
        """Rows of the second batch."""
        return [self.samples[i] for i in self.second]

    @property
    def as_many_first_rows(self) -> Rows:
        """Rows of the first batch, repeated or cut to the size of the second one."""
        return [self.samples[self.first[i % len(self.first)]] for i in range(len(self.second))]

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        half = len(rows) // 2 if draw(st.booleans()) else draw(st.integers(1, len(rows) - 1))
        return {"first": list(range(half)), "second": list(range(half, len(rows)))}

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Two batches of one size, a smaller one before a larger one, and a larger one before a smaller one."""
        return [(2, [0], [1]), (4, [0, 1], [2, 3]), (3, [0], [1, 2]), (3, [0, 1], [2])]


def _sides(inputs: SampleStrategy) -> tuple[Side, ...]:
    """Sides on which padding may be, the least usual first."""
    return inputs.padding.sides[::-1] if inputs.padding is not None else ()


def _has_blank(inputs: SampleStrategy) -> bool:
    return inputs.padding is not None and inputs.padding.blank is not None
