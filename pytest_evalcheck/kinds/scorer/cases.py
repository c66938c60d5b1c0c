"""Documents with their responses: a few, one malformed or faulty among others, many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Conditions, Draws, Given, Plans, Rows, SamplesAndPlan, fixed_up_to
from pytest_evalcheck.kinds.common.convention_cases import ConventionCase
from pytest_evalcheck.kinds.common.failing_metric import ERRORS, some_errors
from pytest_evalcheck.strategies.samples import Sample, SampleStrategy, drawn_with_seed


@dataclass(frozen=True, kw_only=True)
class Documents(SamplesAndPlan):
    """A few documents with their responses."""

    MOST = 4
    GIVEN: ClassVar[Given] = lambda _, n: () if n else None
    CONDITIONS: ClassVar[Conditions] = {
        "one document": lambda case: len(case.samples) == 1,
        "several documents": lambda case: len(case.samples) != 1,
    }

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """One document, and three."""
        return [(fixed_up_to(inputs, count),) for count in dict.fromkeys((max(1, inputs.min_samples), n))]


@dataclass(frozen=True, kw_only=True)
class ConventionDocuments(ConventionCase, Documents):
    """A few documents, and the number of the convention with which a case begins."""


@dataclass(frozen=True, kw_only=True)
class MalformedResponse(SamplesAndPlan):
    """Documents, and one with a malformed response (empty, None, none at all) that is inserted at ``index``."""

    odd: Sample
    index: int

    MOST = 4
    PLAN: ClassVar[Draws] = {
        "odd": lambda inputs, _: st.nothing() if inputs.odd is None else inputs.odd,
        "index": lambda _, rows: st.integers(0, len(rows)),
    }
    CONDITIONS: ClassVar[Conditions] = {
        "an odd response first": lambda case: case.index == 0,
        "an odd response last": lambda case: case.index == len(case.samples),
    }

    @property
    def documents(self) -> Rows:
        """All of them."""
        return [*self.samples[: self.index], self.odd, *self.samples[self.index :]]

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Different malformed responses: first, last, and in the middle of documents in either order."""
        assert inputs.odd is not None
        odd = list({repr(sample): sample for sample in drawn_with_seed(inputs.odd, count=12, seed=0)}.values())
        rows = fixed_up_to(inputs, 3)
        plans = [(rows, 0), (rows[::-1], len(rows)), (rows[:2], 1), (rows[:2][::-1], 1)]
        return [(samples, odd[number % len(odd)], index) for number, (samples, index) in enumerate(plans)]


@dataclass(frozen=True, kw_only=True)
class ManyDocuments(SamplesAndPlan):
    """Enough documents to keep several workers busy: a few samples, repeated."""

    copies: int

    GIVEN: ClassVar[Given] = lambda _, n: (6,) if n else None
    CONDITIONS: ClassVar[Conditions] = {
        "fewer documents than workers": lambda case: len(case.documents) < 2,
        "many documents": lambda case: len(case.documents) > 1,
    }

    @property
    def documents(self) -> Rows:
        """All of them; neighbours are different."""
        return self.samples * self.copies

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Any]:
        few = st.builds(cls, samples=inputs.rows(min_size=1, max_size=1), copies=st.just(1))
        many = st.builds(cls, samples=inputs.rows(min_size=2, max_size=4), copies=st.sampled_from([6, 12]))
        return st.one_of(many, few, many)

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """One document; many, of two samples and of three."""
        return [(fixed_up_to(inputs, count), copies) for count, copies in ((1, 1), (2, 12), (3, 6))]


@dataclass(frozen=True, kw_only=True)
class MetricErrors(SamplesAndPlan):
    """A few documents, and the errors that the metric function raises: one in each of several runs."""

    errors: list[str]

    MOST, FIRST = 3, 2
    PLAN: ClassVar[Draws] = {"errors": lambda *_: some_errors()}
    CONDITIONS = Documents.CONDITIONS

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """All errors, half of them of one document and half of two."""
        rows, half = fixed_up_to(inputs, n), len(ERRORS) // 2
        return [(rows[: cls.fewest(inputs)], [*ERRORS[:half]]), (rows, [*ERRORS[half:]])]


@dataclass(frozen=True, kw_only=True)
class FaultyDocument(SamplesAndPlan):
    """Different documents, of which the one at ``index`` fails."""

    index: int

    FEWEST, MOST = 3, 5
    PLAN: ClassVar[Draws] = {"index": lambda _, rows: st.sampled_from([0, len(rows) - 1, 1])}
    GIVEN: ClassVar[Given] = lambda _, n: (n - 1,) if n > 1 else None
    CONDITIONS: ClassVar[Conditions] = {
        "the first document": lambda case: case.index == 0,
        "the last document": lambda case: case.index == len(case.samples) - 1,
    }

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """The first of three documents fails, and the last."""
        rows = fixed_up_to(inputs, 3)
        return [(rows, index) for index in dict.fromkeys((0, len(rows) - 1))]


@dataclass(frozen=True, kw_only=True)
class SingleDocument(SamplesAndPlan):
    """One of several documents, and another order of all of them."""

    index: int
    order: list[int]

    FEWEST, MOST = 2, 4
    PLAN: ClassVar[Draws] = {
        "index": lambda _, rows: st.integers(0, len(rows) - 1),
        "order": lambda _, rows: st.permutations(range(len(rows))),
    }
    GIVEN: ClassVar[Given] = lambda _, n: (n - 1, [*range(n)][::-1]) if n > 1 else None
    CONDITIONS: ClassVar[Conditions] = {
        "one row of many": lambda case: len(case.samples) > 1,
        "rows in another order": lambda case: case.order != sorted(case.order),
    }

    def batches(self, similar: Callable[[Sample], Sample] | None) -> dict[str, tuple[Rows, int]]:
        """Batches that contain the document, by name, and its index there."""
        rows, document = self.samples, self.samples[self.index]
        batches = {
            "alone": ([document], 0),
            "in another order": ([rows[i] for i in self.order], self.order.index(self.index)),
            "twice": ([*rows, *rows], len(rows) + self.index),
        }
        if similar is not None:
            batches["after a similar one"] = ([similar(document), document], 1)
        return batches

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Each of two documents and of three; in the other order each place is that of some document."""
        rows = fixed_up_to(inputs, 3)
        plans = [(1, [1, 0]), (0, [1, 0]), (2, [2, 1, 0]), (1, [2, 0, 1])]
        return [(rows[: len(order)], index, order) for index, order in plans if len(order) <= len(rows)]


@dataclass(frozen=True, kw_only=True)
class TwoBatches(SamplesAndPlan):
    """A batch of documents, and another one that is scored after it."""

    after: Rows

    FEWEST, MOST = 2, 4
    CONDITIONS: ClassVar[Conditions] = {
        "batches of one size": lambda case: len(case.samples) == len(case.after),
        "batches of unequal sizes": lambda case: len(case.samples) != len(case.after),
    }

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        size = draw(st.one_of(st.just(len(rows) // 2), st.integers(1, len(rows) - 1)))
        return {"samples": rows[:size], "after": rows[size:]}

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> TwoBatches | None:
        return cls(samples=samples[:1], after=samples[1:]) if len(samples) > 1 else None

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Batches of one size, a larger one after a smaller one, and a smaller one after a larger one."""
        rows, ends = fixed_up_to(inputs, 3), ((1, 2), (1, 3), (2, 3))
        return [(rows[:size], rows[size:end]) for size, end in ends if end <= len(rows)]
