"""A stream and the ways to cut it, shard it and reorder it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Cut, Rows, cut_regimes, cuts, pick
from pytest_evalcheck.strategies.samples import SampleStrategy


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Samples cut into batches that are not empty, in order."""

    samples: Rows
    batches: Cut

    @property
    def cut(self) -> list[Rows]:
        """The samples of each batch."""
        return pick(self.samples, self.batches)

    @property
    def whole(self) -> list[Rows]:
        """All samples as one batch."""
        return [list(self.samples)]

    @property
    def regimes(self) -> frozenset[str]:
        reached = cut_regimes(self.batches)
        if len(self.samples) > 1 and all(s == self.samples[0] for s in self.samples):
            reached.add("a constant stream")
        if len(self.batches) > 1:
            reached.add("several batches")
        return frozenset(reached)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Stream]:
        return inputs.rows(min_size=inputs.min_samples, max_size=7).flatmap(
            lambda rows: cuts(len(rows)).map(lambda plan: cls(samples=rows, batches=plan))
        )

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Stream | None:
        n = len(samples)
        plan = [list(range(n - 1)), [n - 1]] if n > 1 else [list(range(n))]
        return cls(samples=samples, batches=plan) if n >= inputs.min_samples else None


@dataclass(frozen=True, kw_only=True)
class Gaps:
    """Samples cut into batches of which some are empty."""

    samples: Rows
    batches: Cut

    @property
    def cut(self) -> list[Rows]:
        """The samples of each batch, empty ones included."""
        return pick(self.samples, self.batches)

    @property
    def without_gaps(self) -> list[Rows]:
        """The same without the empty batches."""
        return [batch for batch in self.cut if batch]

    @property
    def regimes(self) -> frozenset[str]:
        empty = [not batch for batch in self.batches]
        if all(empty):
            return frozenset()
        inner = empty[1:-1]
        first, last = empty[0], empty[-1]
        named = {"an empty first batch": first, "an empty last batch": last, "an empty batch between": any(inner)}
        return frozenset(name for name, reached in named.items() if reached)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Gaps]:
        @st.composite
        def gaps(draw: st.DrawFn) -> Gaps:
            rows = draw(inputs.rows(min_size=inputs.min_samples, max_size=5))
            plan = [list(batch) for batch in draw(cuts(len(rows)))]
            where = draw(st.sampled_from(["first", "last", "between"]))
            if where == "between" and len(plan) < 2:
                where = "first"
            at = {"first": 0, "last": len(plan), "between": 1}[where]
            plan.insert(at, [])
            return cls(samples=rows, batches=plan)

        return gaps()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Gaps | None:
        plan: Cut = [[], list(range(len(samples)))]
        return cls(samples=samples, batches=plan) if len(samples) >= inputs.min_samples else None


@dataclass(frozen=True, kw_only=True)
class FirstBatch:
    """A stream whose first batch is hostile: of one sample, empty, or predicted perfectly."""

    samples: Rows
    batches: Cut

    @property
    def cut(self) -> list[Rows]:
        """The samples of each batch."""
        return pick(self.samples, self.batches)

    @property
    def regimes(self) -> frozenset[str]:
        if len(self.batches) < 2:
            return frozenset()
        size = len(self.batches[0])
        return frozenset(
            {"an empty first batch" if not size else "a first batch of one" if size == 1 else "a larger one"}
        )

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[FirstBatch]:
        @st.composite
        def first_batch(draw: st.DrawFn) -> FirstBatch:
            rows = list(draw(inputs.rows(min_size=max(3, inputs.min_samples), max_size=7)))
            head = draw(st.sampled_from([1, 0, 2]))
            if inputs.right is not None and draw(st.booleans()):
                rows[:head] = [inputs.right(s) for s in rows[:head]]
            plan = [list(range(head)), list(range(head, len(rows)))]
            return cls(samples=rows, batches=plan)

        return first_batch()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> FirstBatch | None:
        n = len(samples)
        return cls(samples=samples, batches=[[0], list(range(1, n))]) if n > max(1, inputs.min_samples) else None


@dataclass(frozen=True, kw_only=True)
class Shards:
    """Samples spread over ranks, in order; each rank cuts its own into batches."""

    samples: Rows
    shards: list[Cut]

    @property
    def split(self) -> list[list[Rows]]:
        """For every rank, its batches."""
        return [pick(self.samples, plan) for plan in self.shards]

    @property
    def whole(self) -> list[Rows]:
        """All samples as one batch."""
        return [list(self.samples)]

    @property
    def regimes(self) -> frozenset[str]:
        sizes = [sum(map(len, plan)) for plan in self.shards]
        reached = set()
        if len({s for s in sizes if s}) > 1:
            reached.add("uneven shards")
        if 0 in sizes:
            reached.add("an empty shard")
        if 1 in sizes:
            reached.add("a shard of one sample")
        if any(len(plan) > 1 for plan in self.shards):
            reached.add("several batches a rank")
        return frozenset(reached)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Shards]:
        @st.composite
        def shards(draw: st.DrawFn) -> Shards:
            rows = draw(inputs.rows(min_size=max(2, inputs.min_samples), max_size=7))
            ranks, n = draw(st.integers(2, 3)), len(rows)
            ends = [0, *sorted(draw(st.lists(st.integers(0, n), min_size=ranks - 1, max_size=ranks - 1))), n]
            plans = []
            for start, end in pairwise(ends):
                plan = draw(cuts(end - start))
                plans.append([[start + i for i in batch] for batch in plan])
            return cls(samples=rows, shards=plans)

        return shards()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Shards | None:
        n = len(samples)
        if n < max(2, inputs.min_samples):
            return None
        return cls(samples=samples, shards=[[list(range(n - 1))], [[n - 1]]])


@dataclass(frozen=True, kw_only=True)
class Reordered:
    """A stream, and the same batches in another order with their samples in another order.

    Every sample stays with those of its batch: what depends on the cut is another promise.
    """

    samples: Rows
    batches: Cut
    order: Cut

    @property
    def in_order(self) -> list[Rows]:
        """The batches as they came."""
        return pick(self.samples, self.batches)

    @property
    def reordered(self) -> list[Rows]:
        """The batches in the other order."""
        return pick(self.samples, self.order)

    @property
    def regimes(self) -> frozenset[str]:
        reached = set()
        if [sorted(batch) for batch in self.order] != [sorted(batch) for batch in self.batches]:
            reached.add("batches that move")
        if any(batch not in self.batches for batch in self.order):
            reached.add("samples that move in their batch")
        return frozenset(reached)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Reordered]:
        @st.composite
        def reordered(draw: st.DrawFn) -> Reordered:
            rows = draw(inputs.rows(min_size=max(2, inputs.min_samples), max_size=6))
            plan = draw(cuts(len(rows)))
            order = [list(draw(st.permutations(batch))) for batch in draw(st.permutations(plan))]
            return cls(samples=rows, batches=plan, order=order)

        return reordered()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Reordered | None:
        stream = Stream.of(inputs, samples)
        if stream is None:
            return None
        backwards = [batch[::-1] for batch in stream.batches[::-1]]
        return cls(samples=samples, batches=stream.batches, order=backwards)


@dataclass(frozen=True, kw_only=True)
class Processes:
    """Samples for real processes: every plan is run for them, since starting processes is dear."""

    samples: Rows

    @property
    def whole(self) -> list[Rows]:
        """All samples as one batch."""
        return [list(self.samples)]

    @property
    def plans(self) -> dict[str, list[list[Rows]]]:
        """Ways to spread the samples over ranks: for every rank, its batches."""
        rows, half = list(self.samples), len(self.samples) // 2
        return {
            "two uneven ranks": [[rows[:half], rows[half:-1]], [rows[-1:]]],
            "three ranks of which one is empty": [[rows[:half]], [], [rows[half:]]],
            "two ranks of which the first is empty": [[], [rows[:half], rows[half:]]],
        }

    @property
    def regimes(self) -> frozenset[str]:
        return frozenset(self.plans)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Processes]:
        # Few cases are tried, so each must tell ranks apart: the last one gets a prediction that is wrong.
        wrong = inputs.wrong or (lambda row: row)
        rows = inputs.rows(min_size=max(5, inputs.min_samples), max_size=6)
        return rows.map(lambda rows: cls(samples=[*rows[:-1], wrong(rows[-1])]))

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Processes | None:
        return cls(samples=samples) if len(samples) >= max(5, inputs.min_samples) else None
