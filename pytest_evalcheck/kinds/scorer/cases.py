"""Documents with their responses: a few, one malformed or faulty among others, many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Rows, fixed_up_to
from pytest_evalcheck.kinds.common.failing_metric import ERRORS, some_errors
from pytest_evalcheck.strategies.samples import Sample, SampleStrategy, drawn_with_seed


@dataclass(frozen=True, kw_only=True)
class Documents:
    """A few documents with their responses."""

    samples: Rows

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset({"one document" if len(self.samples) == 1 else "several documents"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Documents]:
        return st.builds(cls, samples=inputs.rows(min_size=max(1, inputs.min_samples), max_size=4))

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Documents]:
        """One document, and three."""
        counts = dict.fromkeys(max(count, inputs.min_samples) for count in (1, 3))
        return [cls(samples=fixed_up_to(inputs, count)) for count in counts]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Documents | None:
        return cls(samples=samples) if samples else None


@dataclass(frozen=True, kw_only=True)
class CalledDocuments(Documents):
    """A few documents, and the number of the convention with which a case begins."""

    first: int

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[CalledDocuments]:
        rows = inputs.rows(min_size=max(1, inputs.min_samples), max_size=4)
        return st.builds(cls, samples=rows, first=st.integers(0, 3))

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Documents]:
        """One document, and three."""
        return [cls(samples=each.samples, first=i) for i, each in enumerate(Documents.canonical(inputs))]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> CalledDocuments | None:
        return cls(samples=samples, first=0) if samples else None


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
    def conditions(self) -> frozenset[str]:
        reached = {"an odd response first"} if self.index == 0 else set()
        return frozenset(reached | ({"an odd response last"} if self.index == len(self.samples) else set()))

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[MalformedResponse]:
        assert inputs.odd is not None
        odd = inputs.odd

        def documents(rows: Rows) -> st.SearchStrategy[MalformedResponse]:
            return st.builds(cls, samples=st.just(rows), odd=odd, index=st.integers(0, len(rows)))

        return inputs.rows(min_size=1, max_size=4).flatmap(documents)

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[MalformedResponse]:
        """Different malformed responses: first, last, and in the middle of documents in either order."""
        assert inputs.odd is not None
        odd = list({repr(sample): sample for sample in drawn_with_seed(inputs.odd, count=12, seed=0)}.values())
        rows = fixed_up_to(inputs, 3)
        plans = [(rows, 0), (rows[::-1], len(rows)), (rows[:2], 1), (rows[:2][::-1], 1)]
        return [
            cls(samples=samples, odd=odd[number % len(odd)], index=index)
            for number, (samples, index) in enumerate(plans)
        ]


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
    def conditions(self) -> frozenset[str]:
        return frozenset({"fewer documents than workers" if len(self.documents) < 2 else "many documents"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[ManyDocuments]:
        few = st.builds(cls, samples=inputs.rows(min_size=1, max_size=1), copies=st.just(1))
        many = st.builds(cls, samples=inputs.rows(min_size=2, max_size=4), copies=st.sampled_from([6, 12]))
        return st.one_of(many, few, many)

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[ManyDocuments]:
        """One document; many, of two samples and of three."""
        return [cls(samples=fixed_up_to(inputs, count), copies=copies) for count, copies in ((1, 1), (2, 12), (3, 6))]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> ManyDocuments | None:
        return cls(samples=samples, copies=6) if samples else None


@dataclass(frozen=True, kw_only=True)
class MetricErrors:
    """A few documents, and the errors that the metric function raises: one in each of several runs."""

    samples: Rows
    errors: list[str]

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset({"one document" if len(self.samples) == 1 else "several documents"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[MetricErrors]:
        rows = inputs.rows(min_size=max(1, inputs.min_samples), max_size=3)
        return st.builds(cls, samples=rows, errors=some_errors())

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[MetricErrors]:
        """All errors, half of them of one document and half of two."""
        rows, half = fixed_up_to(inputs, max(2, inputs.min_samples)), len(ERRORS) // 2
        parts = ((rows[: max(1, inputs.min_samples)], ERRORS[:half]), (rows, ERRORS[half:]))
        return [cls(samples=samples, errors=list(errors)) for samples, errors in parts]


@dataclass(frozen=True, kw_only=True)
class FaultyDocument:
    """Different documents, of which the one at ``index`` fails."""

    samples: Rows
    index: int

    @property
    def conditions(self) -> frozenset[str]:
        reached = {"the first document"} if self.index == 0 else set()
        return frozenset(reached | ({"the last document"} if self.index == len(self.samples) - 1 else set()))

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[FaultyDocument]:
        def documents(rows: Rows) -> st.SearchStrategy[FaultyDocument]:
            return st.builds(cls, samples=st.just(rows), index=st.sampled_from([0, len(rows) - 1, 1]))

        return inputs.rows(min_size=3, max_size=5).flatmap(documents)

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[FaultyDocument]:
        """The first of three documents fails, and the last."""
        rows = fixed_up_to(inputs, 3)
        return [cls(samples=rows, index=index) for index in dict.fromkeys((0, len(rows) - 1))]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> FaultyDocument | None:
        return cls(samples=samples, index=len(samples) - 1) if len(samples) > 1 else None


@dataclass(frozen=True, kw_only=True)
class SingleDocument:
    """One of several documents, and another order of all of them."""

    samples: Rows
    index: int
    order: list[int]

    def batches(self, similar: Callable[[Sample], Sample] | None) -> dict[str, tuple[Rows, int]]:
        """By name, the batches that contain the document, and its index there."""
        rows, document = self.samples, self.samples[self.index]
        batches = {
            "alone": ([document], 0),
            "in another order": ([rows[i] for i in self.order], self.order.index(self.index)),
            "twice": ([*rows, *rows], len(rows) + self.index),
        }
        if similar is not None:
            batches["after a similar one"] = ([similar(document), document], 1)
        return batches

    @property
    def conditions(self) -> frozenset[str]:
        reached = {"one row of many"} if len(self.samples) > 1 else set()
        return frozenset(reached | ({"rows in another order"} if self.order != sorted(self.order) else set()))

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[SingleDocument]:
        def documents(rows: Rows) -> st.SearchStrategy[SingleDocument]:
            index, order = st.integers(0, len(rows) - 1), st.permutations(range(len(rows)))
            return st.builds(cls, samples=st.just(rows), index=index, order=order)

        return inputs.rows(min_size=2, max_size=4).flatmap(documents)

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[SingleDocument]:
        """Each of two documents and of three; in the other order each place is that of some document."""
        rows = fixed_up_to(inputs, 3)
        plans = [(1, [1, 0]), (0, [1, 0]), (2, [2, 1, 0]), (1, [2, 0, 1])]
        fitting = [(index, order) for index, order in plans if len(order) <= len(rows)]
        return [cls(samples=rows[: len(order)], index=index, order=order) for index, order in fitting]

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
    def conditions(self) -> frozenset[str]:
        same = len(self.samples) == len(self.after)
        return frozenset({"batches of one size" if same else "batches of unequal sizes"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[TwoBatches]:
        def batches(rows: Rows) -> st.SearchStrategy[TwoBatches]:
            sizes = st.one_of(st.just(len(rows) // 2), st.integers(1, len(rows) - 1))
            return sizes.map(lambda size: cls(samples=rows[:size], after=rows[size:]))

        return inputs.rows(min_size=2, max_size=4).flatmap(batches)

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[TwoBatches]:
        """Batches of one size, a larger one after a smaller one, and a smaller one after a larger one."""
        rows = fixed_up_to(inputs, 3)
        return [
            cls(samples=rows[:cut], after=rows[cut:end]) for cut, end in ((1, 2), (1, 3), (2, 3)) if end <= len(rows)
        ]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> TwoBatches | None:
        return cls(samples=samples[:1], after=samples[1:]) if len(samples) > 1 else None
