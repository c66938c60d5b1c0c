"""Streams of samples for a metric: split into batches, over ranks and in other orders; with special samples; cast."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Cut, Rows, cut_conditions, cuts, pick
from pytest_evalcheck.strategies.samples import Bulk, SampleStrategy


@dataclass(frozen=True, kw_only=True)
class _Batched:
    """Samples split into batches, in order."""

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


@dataclass(frozen=True, kw_only=True)
class Stream(_Batched):
    """Samples split into batches that are not empty, in order."""

    @property
    def conditions(self) -> frozenset[str]:
        reached = cut_conditions(self.batches)
        if 1 < len(self.samples) == self.samples.count(self.samples[0]):  # one NaN is that NaN
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

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Stream]:
        """A last batch of one, batches of one, an uneven cut of samples of all kinds, and a constant stream."""
        n = max(3, inputs.min_samples)
        rows, more = inputs.fixed(n), inputs.fixed(n + 1)
        streams = [
            cls(samples=rows, batches=[list(range(n - 1)), [n - 1]]),
            cls(samples=rows, batches=[[i] for i in range(n)]),
            cls(samples=more, batches=[[0], list(range(1, n - 1)), [n - 1, n]]),
        ]
        constant = [] if inputs.distinct else [cls(samples=[rows[0]] * n, batches=[list(range(n - 1)), [n - 1]])]
        return [*streams, *constant]


@dataclass(frozen=True, kw_only=True)
class EmptyBatches(_Batched):
    """Samples split into batches of which some are empty."""

    @property
    def without_empty(self) -> list[Rows]:
        """The batches that are not empty."""
        return [batch for batch in self.cut if batch]

    @property
    def conditions(self) -> frozenset[str]:
        empty = [not batch for batch in self.batches]
        if all(empty):
            return frozenset()
        reached = {
            "an empty first batch": empty[0],
            "an empty last batch": empty[-1],
            "an empty batch between": any(empty[1:-1]),
        }
        return frozenset(name for name, is_reached in reached.items() if is_reached)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[EmptyBatches]:
        @st.composite
        def empty_batches(draw: st.DrawFn) -> EmptyBatches:
            rows = draw(inputs.rows(min_size=inputs.min_samples, max_size=5))
            plan = [list(batch) for batch in draw(cuts(len(rows)))]
            position = draw(st.sampled_from(["first", "last", "between"]))
            if position == "between" and len(plan) < 2:
                position = "first"
            plan.insert({"first": 0, "last": len(plan), "between": 1}[position], [])
            return cls(samples=rows, batches=plan)

        return empty_batches()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> EmptyBatches | None:
        plan: Cut = [[], list(range(len(samples)))]
        return cls(samples=samples, batches=plan) if len(samples) >= inputs.min_samples else None

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[EmptyBatches]:
        """An empty batch first, last and between two others."""
        n = max(3, inputs.min_samples)
        rows, head, last = inputs.fixed(n), list(range(n - 1)), [n - 1]
        return [cls(samples=rows, batches=plan) for plan in ([[], head, last], [head, last, []], [head, [], last])]


@dataclass(frozen=True, kw_only=True)
class FirstBatch(_Batched):
    """A stream whose first batch is unusual: of one sample, empty, or predicted perfectly."""

    @property
    def conditions(self) -> frozenset[str]:
        if len(self.batches) < 2:
            return frozenset()
        size = len(self.batches[0])
        return frozenset({{0: "an empty first batch", 1: "a first batch of one"}.get(size, "a larger one")})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[FirstBatch]:
        @st.composite
        def first_batch(draw: st.DrawFn) -> FirstBatch:
            rows = list(draw(inputs.rows(min_size=max(3, inputs.min_samples), max_size=7)))
            head = draw(st.sampled_from([1, 0, 2]))
            if inputs.right is not None and draw(st.booleans()):
                rows[:head] = [inputs.right(s) for s in rows[:head]]
            return cls(samples=rows, batches=[list(range(head)), list(range(head, len(rows)))])

        return first_batch()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> FirstBatch | None:
        n = len(samples)
        return cls(samples=samples, batches=[[0], list(range(1, n))]) if n > max(1, inputs.min_samples) else None

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[FirstBatch]:
        """A first batch of one, an empty one and a larger one, and two that are predicted perfectly."""
        n = max(4, inputs.min_samples)
        rows = inputs.fixed(n)
        heads = [(rows, 1), (rows, 0), (rows, 2)]
        if inputs.right is not None:
            # All but the first batch is as bad as it gets: members that agree on it differ on the whole.
            change = inputs.wrong or (lambda row: row)
            heads += [([*map(inputs.right, rows[:head]), *map(change, rows[head:])], head) for head in (1, 2)]
        return [cls(samples=r, batches=[list(range(head)), list(range(head, n))]) for r, head in heads]


@dataclass(frozen=True, kw_only=True)
class Reordered(_Batched):
    """A stream, and the same batches in another order with their samples in another order.

    Every sample stays in its batch: how the value depends on the split is another property.
    """

    order: Cut

    @property
    def reordered(self) -> list[Rows]:
        """The batches in the other order."""
        return pick(self.samples, self.order)

    @property
    def conditions(self) -> frozenset[str]:
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
        return cls(samples=samples, batches=stream.batches, order=[batch[::-1] for batch in stream.batches[::-1]])

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Reordered]:
        """Batches that move, samples that move in their batch, and both at once, where each alone might not show."""
        n = max(4, inputs.min_samples)
        rows, ends = inputs.fixed(n), (0, n - 2, n)
        plan = [list(range(a, b)) for a, b in pairwise(ends)]
        within = [batch[::-1] for batch in plan]
        return [cls(samples=rows, batches=plan, order=order) for order in (plan[::-1], within, within[::-1])]


@dataclass(frozen=True, kw_only=True)
class Shards:
    """Samples split over ranks, in order; each rank splits its own into batches."""

    samples: Rows
    shards: list[Cut]

    @property
    def split(self) -> list[list[Rows]]:
        """For every rank, its batches."""
        return [pick(self.samples, plan) for plan in self.shards]

    @property
    def conditions(self) -> frozenset[str]:
        sizes = [sum(map(len, plan)) for plan in self.shards]
        reached = {
            "uneven shards": len({s for s in sizes if s}) > 1,
            "an empty shard": 0 in sizes,
            "a shard of one sample": 1 in sizes,
            "several batches a rank": any(len(plan) > 1 for plan in self.shards),
        }
        return frozenset(name for name, is_reached in reached.items() if is_reached)

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

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Shards]:
        """A shard of one beside one of several batches, an empty shard first and last, and three uneven ones."""
        n = max(3, inputs.min_samples)
        rows, more = inputs.fixed(n), inputs.fixed(n + 1)
        head, last = list(range(n - 1)), [n - 1]
        ones = [[i] for i in head]
        return [
            cls(samples=rows, shards=[ones, [last]]),
            cls(samples=rows, shards=[[], [head, last]]),
            cls(samples=rows, shards=[[head, last], []]),
            cls(samples=more, shards=[[[0]], ones[1:], [[n - 1, n]]]),
        ]


@dataclass(frozen=True, kw_only=True)
class Processes:
    """Samples for real processes. Starting processes is slow, so every plan is run for each case."""

    samples: Rows

    @property
    def whole(self) -> list[Rows]:
        """All samples as one batch."""
        return [list(self.samples)]

    @property
    def plans(self) -> dict[str, list[list[Rows]]]:
        """By name, how the samples are split over ranks: for every rank, its batches."""
        rows, half = list(self.samples), len(self.samples) // 2
        return {
            "two uneven ranks": [[rows[:half], rows[half:-1]], [rows[-1:]]],
            "three ranks of which one is empty": [[rows[:half]], [], [rows[half:]]],
            "two ranks of which the first is empty": [[], [rows[:half], rows[half:]]],
        }

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset(self.plans)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Processes]:
        # Few cases are tried, so ranks must differ in each: the last sample gets a wrong prediction.
        wrong = inputs.wrong or (lambda row: row)
        rows = inputs.rows(min_size=max(5, inputs.min_samples), max_size=6)
        return rows.map(lambda rows: cls(samples=[*rows[:-1], wrong(rows[-1])]))

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Processes | None:
        return cls(samples=samples) if len(samples) >= max(5, inputs.min_samples) else None

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Processes]:
        """One case, which runs every plan: starting processes is slow."""
        wrong = inputs.wrong or (lambda row: row)
        rows = inputs.fixed(max(5, inputs.min_samples))
        return [cls(samples=[*rows[:-1], wrong(rows[-1])])]


@dataclass(frozen=True, kw_only=True)
class Ignored(_Batched):
    """Samples of which some must not count: their indices are in ``ignored``."""

    ignored: list[int]

    @property
    def counted(self) -> list[Rows]:
        """The samples that count, as one batch; no batch when none does."""
        rows = [s for i, s in enumerate(self.samples) if i not in self.ignored]
        return [rows] if rows else []

    @property
    def conditions(self) -> frozenset[str]:
        ignored = set(self.ignored)
        reached = set()
        if ignored and len(ignored) == len(self.samples):
            reached.add("everything ignored")
        elif any(set(batch) <= ignored for batch in self.batches):
            reached.add("a whole batch ignored")
        if any(set(batch) & ignored and not set(batch) <= ignored for batch in self.batches):
            reached.add("part of a batch ignored")
        return frozenset(reached)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Ignored]:
        @st.composite
        def with_ignored(draw: st.DrawFn) -> Ignored:
            assert inputs.ignored is not None
            counted = draw(inputs.rows(max_size=4))
            ignored = draw(st.lists(inputs.ignored, min_size=1, max_size=3))
            if counted and len(counted) < inputs.min_samples:
                counted = []
            n = len(ignored)
            positions = sorted(draw(st.lists(st.integers(0, len(counted)), min_size=n, max_size=n)))
            rows, indices = list(counted), []
            for already, (sample, position) in enumerate(zip(ignored, positions, strict=True)):
                indices.append(position + already)
                rows.insert(position + already, sample)
            return cls(samples=rows, batches=draw(cuts(len(rows))), ignored=indices)

        return with_ignored()

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Ignored]:
        """An ignored sample beside a counted one, a whole batch of them first and last, and nothing else."""
        skipped, n = inputs.fixed_ignored, max(3, inputs.min_samples)
        if not skipped:
            return []
        one, other, *_ = skipped
        rows, counted = inputs.fixed(n), list(range(1, n + 1))
        return [
            cls(samples=[rows[0], one, *rows[1:]], batches=[[0, 1], list(range(2, n + 1))], ignored=[1]),
            cls(samples=[one, *rows], batches=[[0], counted], ignored=[0]),
            cls(samples=[*rows, one, other], batches=[list(range(n)), [n, n + 1]], ignored=[n, n + 1]),
            cls(samples=[one, other], batches=[[0], [1]], ignored=[0, 1]),
        ]


@dataclass(frozen=True, kw_only=True)
class NonFinite(_Batched):
    """Samples split into batches, one of them with a number that is not finite."""

    corrupted: int
    number: float

    @property
    def conditions(self) -> frozenset[str]:
        if len(self.samples) < 2:
            return frozenset()
        return frozenset({"the first sample" if self.corrupted == 0 else "a later sample"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[NonFinite]:
        @st.composite
        def nonfinite(draw: st.DrawFn) -> NonFinite:
            assert inputs.corrupted is not None
            rows = list(draw(inputs.rows(min_size=max(2, inputs.min_samples), max_size=5)))
            index = draw(st.integers(0, len(rows) - 1))
            number = draw(st.sampled_from(inputs.nonfinite))
            rows[index] = inputs.corrupted(rows[index], number)
            return cls(samples=rows, batches=draw(cuts(len(rows))), corrupted=index, number=number)

        return nonfinite()

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[NonFinite]:
        """The first number in the first sample and in the last one, every other number in one of both."""
        if inputs.corrupted is None:
            return []
        n, number, *others = max(3, inputs.min_samples), *inputs.nonfinite
        places = [(0, number), (n - 1, number), *((i % 2 * (n - 1), other) for i, other in enumerate(others))]
        return [cls._at(inputs, index, value) for index, value in places]

    @classmethod
    def _at(cls, inputs: SampleStrategy, index: int, number: float) -> NonFinite:
        assert inputs.corrupted is not None
        rows = inputs.fixed(max(3, inputs.min_samples))
        n = len(rows)
        rows[index] = inputs.corrupted(rows[index], number)
        return cls(samples=rows, batches=[list(range(n - 1)), [n - 1]], corrupted=index, number=number)


NOT_FINITE = "a number that is not finite"


@dataclass(frozen=True, kw_only=True)
class Rejected(_Batched):
    """Valid batches with a malformed one before batch ``at``, fed by ``through``; ``fault`` names what is wrong."""

    at: int
    fault: str
    through: str

    FAULTS = ("unequal lengths", "another rank", "another type", "too few arguments", NOT_FINITE)

    @property
    def malformed(self) -> Rows:
        """The samples of the malformed batch: a good one backwards, so that no rest of it looks like it."""
        return [self.samples[i] for i in reversed(self.batches[min(self.at, len(self.batches) - 1)])]

    @property
    def conditions(self) -> frozenset[str]:
        position = "before any good batch" if self.at == 0 else "after a good batch"
        return frozenset({position, f"through {self.through}"})

    @classmethod
    def _faults(cls, inputs: SampleStrategy) -> tuple[str, ...]:
        return cls.FAULTS if inputs.corrupted is not None else cls.FAULTS[:-1]

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Rejected]:
        @st.composite
        def rejected(draw: st.DrawFn) -> Rejected:
            rows = draw(inputs.rows(min_size=max(2, inputs.min_samples), max_size=5))
            plan = draw(cuts(len(rows)))
            return cls(
                samples=rows,
                batches=plan,
                at=draw(st.integers(0, len(plan))),
                fault=draw(st.sampled_from(cls._faults(inputs))),
                through=draw(st.sampled_from(["update", "forward"])),
            )

        return rejected()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Rejected | None:
        stream = Stream.of(inputs, samples)
        if stream is None:
            return None
        plan = stream.batches
        return cls(samples=samples, batches=plan, at=len(plan), fault=cls.FAULTS[0], through="update")

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Rejected]:
        """Every fault through both methods, in a batch of four rows; unequal lengths in one of one row, too.

        One row less leaves nothing of a batch of one row. What is left of four rows is not broadcast, and their number
        is seldom that of the classes, for which a batch of another rank could be taken.
        """
        few, more = max(3, inputs.min_samples), max(5, inputs.min_samples + 2)
        lengths, *others = cls._faults(inputs)
        one = [list(range(few - 1)), [few - 1]]
        first, last = [[list(range(cut)), list(range(cut, more))] for cut in (4, more - 4)]
        faults = [(few, one, 1, lengths), (more, first, 0, lengths), *((more, last, 1, fault) for fault in others)]
        return [
            cls(samples=inputs.fixed(n), batches=plan, at=at, fault=fault, through=through)
            for n, plan, at, fault in faults
            for through in ("update", "forward")
        ]


@dataclass(frozen=True, kw_only=True)
class LowPrecision:
    """Many samples from a distribution, in batches of ``batch`` rows, quantised to ``dtype``."""

    seed: int
    rows: int
    batch: int
    scale: float
    offset: float
    drift: float
    dtype: str

    @property
    def bulk(self) -> Bulk:
        """The distribution, without the batches and the dtype."""
        return Bulk(seed=self.seed, rows=self.rows, scale=self.scale, offset=self.offset, drift=self.drift)

    @property
    def conditions(self) -> frozenset[str]:
        reached = {self.dtype}
        if self.offset:
            reached.add("an offset")
        if self.rows > 1000:
            reached.add("thousands of samples")
        return frozenset(reached)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[LowPrecision]:
        del inputs
        return st.builds(
            cls,
            seed=st.integers(0, 99),
            rows=st.sampled_from([64, 1000, 5000]),
            batch=st.sampled_from([1000, 100]),
            scale=st.sampled_from([1.0, 100.0]),
            offset=st.sampled_from([0.0, 1000.0]),
            drift=st.sampled_from([0.0, 1.0]),
            dtype=st.sampled_from(["float16", "bfloat16", "float32"]),
        )

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[LowPrecision]:
        """Every dtype with few plain rows, with an offset, and with thousands of drifting rows."""
        plain = {"seed": 0, "rows": 64, "batch": 1000, "scale": 1.0, "offset": 0.0, "drift": 0.0}
        harder = [{}, {"rows": 1000, "offset": 1000.0}, {"rows": 5000, "scale": 100.0, "drift": 1.0}]
        dtypes = ("float32", "float16", "bfloat16")
        return [cls(**{**plain, **change}, dtype=dtype) for change in harder for dtype in dtypes]  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Cast(_Batched):
    """Samples split into batches whose numbers arrive as another dtype."""

    dtype: str

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset({self.dtype})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Cast]:
        # Small numbers wrap in uint8 alone.
        dtypes = [*cls._dtypes(inputs), *(["uint8"] * 2 if inputs.integers else [])]
        drawn = st.tuples(st.sampled_from(dtypes), Stream.strategy(inputs)).map(
            lambda drawn: cls(samples=drawn[1].samples, batches=drawn[1].batches, dtype=drawn[0])
        )
        wide = st.tuples(st.sampled_from([*_NARROW]), st.integers(0, 99)).map(lambda drawn: cls._wide(inputs, *drawn))
        return st.one_of(drawn, drawn, wide) if inputs.integers and inputs.bulk else drawn

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Cast | None:
        stream = Stream.of(inputs, samples)
        return cls(samples=samples, batches=stream.batches, dtype="float16") if stream else None

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Cast]:
        """Every dtype."""
        stream, *_ = Stream.canonical(inputs)
        made = [cls(samples=stream.samples, batches=stream.batches, dtype=dtype) for dtype in cls._dtypes(inputs)]
        wide = [cls._wide(inputs, dtype, 0) for dtype in _NARROW] if inputs.integers and inputs.bulk else []
        return [*made, *wide]

    @classmethod
    def _wide(cls, inputs: SampleStrategy, dtype: str, seed: int) -> Cast:
        """Numbers all over the range of a narrow dtype, in which squares and sums of differences wrap."""
        assert inputs.bulk is not None
        n = max(4, inputs.min_samples)
        rows = [*inputs.bulk(Bulk(seed=seed, rows=n, scale=_NARROW[dtype]))]
        return cls(samples=rows, batches=[list(range(n - 1)), [n - 1]], dtype=dtype)

    @classmethod
    def _dtypes(cls, inputs: SampleStrategy) -> list[str]:
        return ["float16", "bfloat16", *(["uint8", "int32"] if inputs.integers else [])]


_NARROW = {"uint8": 128.0, "int8": 64.0}
"""By dtype: a scale with which most numbers lie in its range, and reach its end."""
