"""Streams of samples for a metric: split into batches, over ranks and in other orders; special, extreme and cast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice, pairwise
from typing import Any, ClassVar

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import (
    Conditions,
    Draws,
    Given,
    Partition,
    Plans,
    Rows,
    SamplesAndPlan,
    first_batch,
    last_alone,
    one_batch,
    partitions,
    pick,
    with_corrupted,
)
from pytest_evalcheck.kinds.common.convention_cases import ConventionCase
from pytest_evalcheck.strategies.samples import Bulk, Sample, SampleStrategy

_SEVERAL: Conditions = {
    "several batches": lambda case: len(case.batches) > 1,
    "one batch": lambda case: len(case.batches) == 1,
}


@dataclass(frozen=True, kw_only=True)
class Batched(SamplesAndPlan):
    """Samples split into batches, in order."""

    batches: Partition

    FEWEST = 0
    PLAN: ClassVar[Draws] = {"batches": lambda _, rows: partitions(len(rows))}

    @property
    def split(self) -> list[Rows]:
        """Samples of each batch."""
        return pick(self.samples, self.batches)

    @property
    def whole(self) -> list[Rows]:
        """All samples as one batch."""
        return [list(self.samples)]


@dataclass(frozen=True, kw_only=True)
class Stream(Batched):
    """Samples split into batches that are not empty, in order."""

    CONDITIONS: ClassVar[Conditions] = {
        "a last batch of one": lambda case: len(case.batches) > 1 and len(case.batches[-1]) == 1 < len(case.batches[0]),
        "batches of one": lambda case: len(case.batches) > 1 and all(len(batch) == 1 for batch in case.batches),
        "uneven batches": lambda case: len({len(batch) for batch in case.batches}) > 1,
        # One NaN is that NaN.
        "a constant stream": lambda case: 1 < len(case.samples) == case.samples.count(case.samples[0]),
        "several batches": _SEVERAL["several batches"],
    }
    GIVEN: ClassVar[Given] = lambda _, n: (last_alone(n),)

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """A last batch of one, batches of one, an uneven cut of samples of all kinds, and a constant stream."""
        plans = [(n, last_alone(n)), (n, [[i] for i in range(n)]), (n + 1, [[0], [*range(1, n - 1)], [n - 1, n]])]
        constant = [] if inputs.distinct else [([inputs.fixed(n)[0]] * n, last_alone(n))]
        return [*plans, *constant]


@dataclass(frozen=True, kw_only=True)
class FineStream(Stream):
    """A stream. The numbers of some are no multiples of 1/8, so that half precision holds few of their sums."""

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """The streams of `Stream`, and three of numbers with many digits: one sum may be nearly a short number."""
        count = max(4, n + 1)
        plan = [[0], [*range(1, count)]]
        fine = [inputs.bulk(Bulk(seed=seed, rows=count)) for seed in range(3)] if inputs.bulk else []
        return [*super().first_plans(inputs, n), *(([*rows], plan) for rows in fine)]


@dataclass(frozen=True, kw_only=True)
class ConventionStream(ConventionCase, Stream):
    """A stream in batches, and the number of the convention with which a case begins."""

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """The streams of `Stream` and a longer one of other samples, each with another convention first.

        Three samples may have the same value by accident, as where two labels are exchanged.
        """
        size = max(5, inputs.min_samples)
        # Of more samples the last ones: the first are those of the other streams.
        longer = inputs.fixed(size + 3)[-size:], [[*range(size - 3)], [size - 3], [size - 2, size - 1]], 3
        return [*list(super().first_plans(inputs, n))[:3], longer]


@dataclass(frozen=True, kw_only=True)
class EmptyBatches(Batched):
    """Samples split into batches of which some are empty."""

    MOST = 5
    GIVEN: ClassVar[Given] = lambda _, n: (first_batch(0, n),)
    CONDITIONS = {
        "an empty first batch": lambda case: any(case.batches) and not case.batches[0],
        "an empty last batch": lambda case: any(case.batches) and not case.batches[-1],
        "an empty batch between": lambda case: any(case.batches) and [] in case.batches[1:-1],
    }

    @property
    def without_empty(self) -> list[Rows]:
        """Batches that are not empty."""
        return [batch for batch in self.split if batch]

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        plan = [list(batch) for batch in draw(partitions(len(rows)))]
        position = draw(st.sampled_from(["first", "last", "between"]))
        if position == "between" and len(plan) < 2:
            position = "first"
        plan.insert({"first": 0, "last": len(plan), "between": 1}[position], [])
        return {"batches": plan}

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """An empty batch first, last and between two others."""
        head, last = last_alone(n)
        return [(n, [[], head, last]), (n, [head, last, []]), (n, [head, [], last])]


@dataclass(frozen=True, kw_only=True)
class FirstBatch(Batched):
    """A stream whose first batch is unusual: of one sample, empty, or predicted perfectly."""

    FEWEST, FIRST = 3, 4
    GIVEN: ClassVar[Given] = lambda _, n: (first_batch(1, n),) if n > 1 else None
    CONDITIONS = {
        "an empty first batch": lambda case: len(case.batches) > 1 and not case.batches[0],
        "a first batch of one": lambda case: len(case.batches) > 1 and len(case.batches[0]) == 1,
        "a larger one": lambda case: len(case.batches) > 1 and len(case.batches[0]) > 1,
    }

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        head = draw(st.sampled_from([1, 0, 2]))
        if inputs.right is not None and draw(st.booleans()):
            rows = [*map(inputs.right, rows[:head]), *rows[head:]]
        return {"samples": rows, "batches": first_batch(head, len(rows))}

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """A first batch of one, an empty one and a larger one, and two that are predicted perfectly."""
        rows = inputs.fixed(n)
        heads = [(rows, 1), (rows, 0), (rows, 2)]
        if inputs.right is not None:
            # All but the first batch is as bad as it gets: members that agree on it differ on the whole.
            change = inputs.wrong or (lambda row: row)
            heads += [([*map(inputs.right, rows[:head]), *map(change, rows[head:])], head) for head in (1, 2)]
        return [(r, first_batch(head, n)) for r, head in heads]


@dataclass(frozen=True, kw_only=True)
class Reordered(Batched):
    """A stream, and the same batches in another order with their samples in another order.

    Every sample stays in its batch: how the value depends on the split is another property.
    """

    order: Partition

    FEWEST, MOST, FIRST = 2, 6, 4
    GIVEN: ClassVar[Given] = lambda _, n: (last_alone(n), [batch[::-1] for batch in last_alone(n)[::-1]])
    CONDITIONS = {
        "batches that move": lambda case: [*map(sorted, case.order)] != [*map(sorted, case.batches)],
        "samples that move in their batch": lambda case: any(batch not in case.batches for batch in case.order),
        "a tie": lambda case: len({*Counter(map(repr, case.samples)).values()}) == 1 and case.is_led_by_another,
    }

    @property
    def is_led_by_another(self) -> bool:
        """Tell whether another sample comes first in the other order."""
        one, other = (next(index for batch in plan for index in batch) for plan in (self.batches, self.order))
        return repr(self.samples[one]) != repr(self.samples[other])

    @property
    def reordered(self) -> list[Rows]:
        """Batches in the other order."""
        return pick(self.samples, self.order)

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        plan = draw(partitions(len(rows)))
        return {
            "batches": plan,
            "order": [list(draw(st.permutations(batch))) for batch in draw(st.permutations(plan))],
        }

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Batches that move, samples that move in their batch, and both at once, where each alone might not show; ties.

        In a tie, samples of two or four kinds occur equally often: two right ones, a right and a wrong one, and both of
        each. The first that is seen must not win.
        """
        plan = first_batch(n - 2, n)
        within = [batch[::-1] for batch in plan]
        moved = [(n, plan, order) for order in (plan[::-1], within, within[::-1])]
        ties = [(rows, first_batch(len(rows) // 2, len(rows))) for rows in cls._ties(inputs)]
        return [*moved, *((rows, plan, [batch[::-1] for batch in plan[::-1]]) for rows, plan in ties)]

    @classmethod
    def _ties(cls, inputs: SampleStrategy) -> list[Rows]:
        right, wrong = inputs.right or (lambda row: row), inputs.wrong or (lambda row: row)
        kinds = list({repr(row): row for row in map(right, (*inputs.contrast, *inputs.fixed(4)))}.values())
        one, other = (kinds * 2)[:2]
        pairs = [[one, other], [one, wrong(other)], [one, wrong(one), other, wrong(other)]]
        if inputs.distinct is not None:
            keys = [{*map(inputs.distinct, rows)} for rows in pairs]
            return [
                rows for rows, known in zip(pairs, keys, strict=True) if inputs.min_samples <= len(rows) == len(known)
            ]
        # Each as often as the others, and enough for a value.
        return [rows * -(-max(cls.FEWEST, inputs.min_samples) // len(rows)) for rows in pairs]


@dataclass(frozen=True, kw_only=True)
class Shards(SamplesAndPlan):
    """Samples split over ranks, in order; each rank splits its own into batches."""

    shards: list[Partition]

    FEWEST = 2
    GIVEN: ClassVar[Given] = lambda _, n: ([[batch] for batch in last_alone(n)],) if n > 1 else None
    CONDITIONS = {
        "uneven shards": lambda case: len({size for size in case.sizes if size}) > 1,
        "an empty shard": lambda case: 0 in case.sizes,
        "a shard of one sample": lambda case: 1 in case.sizes,
        "several batches a rank": lambda case: any(len(plan) > 1 for plan in case.shards),
    }

    @property
    def sizes(self) -> list[int]:
        """Number of samples of each rank."""
        return [sum(map(len, plan)) for plan in self.shards]

    @property
    def split(self) -> list[list[Rows]]:
        """Batches of each rank."""
        return [pick(self.samples, plan) for plan in self.shards]

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        ranks, n = draw(st.integers(2, 3)), len(rows)
        ends = [0, *sorted(draw(st.lists(st.integers(0, n), min_size=ranks - 1, max_size=ranks - 1))), n]
        plans = [(start, draw(partitions(end - start))) for start, end in pairwise(ends)]
        return {"shards": [[[start + i for i in batch] for batch in plan] for start, plan in plans]}

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """A shard of one beside one of several batches, an empty shard first and last, and three uneven ones."""
        head, last = last_alone(n)
        ones = [[i] for i in head]
        return [
            (n, [ones, [last]]),
            (n, [[], [head, last]]),
            (n, [[head, last], []]),
            (n + 1, [[[0]], ones[1:], [[n - 1, n]]]),
        ]


@dataclass(frozen=True, kw_only=True)
class Processes(SamplesAndPlan):
    """Samples for real processes. Starting processes is slow, so every plan is run for each case."""

    FEWEST, MOST, FIRST = 5, 6, 5
    GIVEN: ClassVar[Given] = lambda _, n: () if n > 4 else None
    PLANS = ("two uneven ranks", "three ranks of which one is empty", "two ranks of which the first is empty")
    CONDITIONS = dict.fromkeys(PLANS, lambda _: True)

    @property
    def whole(self) -> list[Rows]:
        """All samples as one batch."""
        return [list(self.samples)]

    @property
    def plans(self) -> dict[str, list[list[Rows]]]:
        """Splits over ranks by name: for every rank, its batches."""
        rows, half = list(self.samples), len(self.samples) // 2
        shards = (
            [[rows[:half], rows[half:-1]], [rows[-1:]]],
            [[rows[:half]], [], [rows[half:]]],
            [[], [rows[:half], rows[half:]]],
        )
        return dict(zip(self.PLANS, shards, strict=True))

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        return {"samples": cls._with_wrong_last(inputs, rows)}

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """One case, which runs every plan: starting processes is slow."""
        return [(cls._with_wrong_last(inputs, inputs.fixed(n)),)]

    @classmethod
    def _with_wrong_last(cls, inputs: SampleStrategy, rows: Rows) -> Rows:
        # Few cases are tried, so ranks must differ in each.
        return [*rows[:-1], inputs.wrong(rows[-1]) if inputs.wrong else rows[-1]]


@dataclass(frozen=True, kw_only=True)
class Ignored(Batched):
    """Samples of which some must not count: their indices are in ``ignored``."""

    ignored: list[int]

    CONDITIONS = {
        "everything ignored": lambda case: case.ignores_all,
        "a whole batch ignored": lambda case: (
            not case.ignores_all and any(set(batch) <= {*case.ignored} for batch in case.batches)
        ),
        "part of a batch ignored": lambda case: any(
            set(batch) & {*case.ignored} and not set(batch) <= {*case.ignored} for batch in case.batches
        ),
    }

    @property
    def ignores_all(self) -> bool:
        """Tell whether there are samples and none of them counts."""
        return bool(self.ignored) and len({*self.ignored}) == len(self.samples)

    @property
    def counted(self) -> list[Rows]:
        """Samples that count, as one batch; no batch when none does."""
        rows = [s for i, s in enumerate(self.samples) if i not in self.ignored]
        return [rows] if rows else []

    @classmethod
    def draw_samples(cls, inputs: SampleStrategy) -> st.SearchStrategy[Rows]:
        return inputs.rows(max_size=4)

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        assert inputs.ignored is not None
        ignored = draw(st.lists(inputs.ignored, min_size=1, max_size=3))
        rows = list(rows) if len(rows) >= inputs.min_samples else []
        n = len(ignored)
        positions = sorted(draw(st.lists(st.integers(0, len(rows)), min_size=n, max_size=n)))
        indices = [position + already for already, position in enumerate(positions)]
        for index, sample in zip(indices, ignored, strict=True):
            rows.insert(index, sample)
        return {"samples": rows, "batches": draw(partitions(len(rows))), "ignored": indices}

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """An ignored sample beside a counted one, a whole batch of them first and last, and nothing else."""
        skipped = inputs.fixed_ignored
        if not skipped:
            return []
        one, other, *_ = skipped
        rows = inputs.fixed(n)
        return [
            ([rows[0], one, *rows[1:]], first_batch(2, n + 1), [1]),
            ([one, *rows], first_batch(1, n + 1), [0]),
            ([*rows, one, other], first_batch(n, n + 2), [n, n + 1]),
            ([one, other], [[0], [1]], [0, 1]),
        ]


@dataclass(frozen=True, kw_only=True)
class NonFinite(Batched):
    """Samples split into batches, one of them with a number that is not finite."""

    corrupted: int
    number: float

    FEWEST, MOST = 2, 5
    CONDITIONS = {
        "the first sample": lambda case: len(case.samples) > 1 and case.corrupted == 0,
        "a later sample": lambda case: len(case.samples) > 1 and case.corrupted > 0,
    }

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        index, number = draw(st.integers(0, len(rows) - 1)), draw(st.sampled_from(inputs.nonfinite))
        rows = with_corrupted(inputs, rows, index, number)
        return {"samples": rows, **super().draw_plan(draw, inputs, rows), "corrupted": index, "number": number}

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """The first number in the first sample and in the last one, every other number in one of both."""
        if inputs.corrupted is None:
            return []
        number, *others = inputs.nonfinite
        places = [(0, number), (n - 1, number), *((i % 2 * (n - 1), other) for i, other in enumerate(others))]
        rows, plan = inputs.fixed(n), last_alone(n)
        return [(with_corrupted(inputs, rows, index, value), plan, index, value) for index, value in places]


NOT_FINITE = "a number that is not finite"


@dataclass(frozen=True, kw_only=True)
class Rejected(Batched):
    """Valid batches with a malformed one before batch ``at``, fed by ``through``; ``fault`` names what is wrong."""

    at: int
    fault: str
    through: str

    FEWEST, MOST = 2, 5
    GIVEN: ClassVar[Given] = lambda _, n: (last_alone(n), len(last_alone(n)), "unequal lengths", "update")
    FAULTS = ("unequal lengths", "another rank", "another type", "too few arguments", NOT_FINITE)
    CONDITIONS = {
        "before any good batch": lambda case: case.at == 0,
        "after a good batch": lambda case: case.at > 0,
        "through update": lambda case: case.through == "update",
        "through forward": lambda case: case.through == "forward",
    }

    @property
    def malformed(self) -> Rows:
        """Samples of the malformed batch: a good one backwards, so that no rest of it looks like it."""
        return [self.samples[i] for i in reversed(self.batches[min(self.at, len(self.batches) - 1)])]

    @classmethod
    def _faults(cls, inputs: SampleStrategy) -> tuple[str, ...]:
        return cls.FAULTS if inputs.corrupted is not None else cls.FAULTS[:-1]

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        plan = draw(partitions(len(rows)))
        return {
            "batches": plan,
            "at": draw(st.integers(0, len(plan))),
            "fault": draw(st.sampled_from(cls._faults(inputs))),
            "through": draw(st.sampled_from(["update", "forward"])),
        }

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Every fault through both methods, in a batch of four rows; unequal lengths in one of one row, too.

        One row less leaves nothing of a batch of one row. What is left of four rows is not broadcast, and their number
        is seldom that of the classes, for which a batch of another rank could be taken.
        """
        more = max(5, inputs.min_samples + 2)
        lengths, *others = cls._faults(inputs)
        faults = [(n, last_alone(n), 1, lengths), (more, first_batch(4, more), 0, lengths)]
        faults += [(more, first_batch(more - 4, more), 1, fault) for fault in others]
        return [(*fault, through) for fault in faults for through in ("update", "forward")]


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
        """Distribution, without the batches and the dtype."""
        return Bulk(seed=self.seed, rows=self.rows, scale=self.scale, offset=self.offset, drift=self.drift)

    @property
    def conditions(self) -> frozenset[str]:
        offset = {"an offset"} if self.offset else set()
        return frozenset({self.dtype, *offset, *({"thousands of samples"} if self.rows > 1000 else ())})

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
class Cast(Stream):
    """Samples split into batches whose numbers arrive as another dtype."""

    dtype: str

    GIVEN: ClassVar[Given] = lambda _, n: (last_alone(n), "float16")
    FLOATS = ("float16", "bfloat16")
    INTEGERS = ("uint8", "int32")

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset({self.dtype})

    @classmethod
    def _dtypes(cls, inputs: SampleStrategy) -> list[str]:
        return [*cls.FLOATS, *(cls.INTEGERS if inputs.integers else ())]

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Any]:
        # Small numbers wrap in uint8 alone.
        dtypes = [*cls._dtypes(inputs), *(["uint8"] * 2 if inputs.integers else [])]
        drawn = st.builds(
            lambda dtype, stream: cls(samples=stream.samples, batches=stream.batches, dtype=dtype),
            st.sampled_from(dtypes),
            Stream.strategy(inputs),
        )
        wide = st.builds(
            lambda dtype, seed: cls.made(inputs, *_wide(inputs, dtype, seed)),
            st.sampled_from([*_NARROW]),
            st.integers(0, 99),
        )
        return st.one_of(drawn, drawn, wide) if inputs.integers and inputs.bulk else drawn

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Every dtype."""
        wide = [_wide(inputs, dtype, 0) for dtype in _NARROW] if inputs.integers and inputs.bulk else []
        return [*((n, last_alone(n), dtype) for dtype in cls._dtypes(inputs)), *wide]


@dataclass(frozen=True, kw_only=True)
class CastBeforeReset(Cast):
    """Samples split into batches whose numbers arrive as another dtype, wider ones too, before a reset."""

    FLOATS = ("float16", "float64")
    INTEGERS = ("int64", "uint8")


_NARROW = {"uint8": 128.0, "int8": 64.0}
"""Scales by dtype, with which most numbers lie in its range, and reach its end."""


def _wide(inputs: SampleStrategy, dtype: str, seed: int) -> tuple[Any, ...]:
    """Samples, plan and dtype: numbers all over the range of a narrow dtype, where squares and differences wrap."""
    assert inputs.bulk is not None
    n = max(4, inputs.min_samples)
    return [*inputs.bulk(Bulk(seed=seed, rows=n, scale=_NARROW[dtype]))], last_alone(n), dtype


@dataclass(frozen=True, kw_only=True)
class MixedDtypes(Batched):
    """Samples split into batches, with a dtype for the numbers of each batch; those of an integer batch are whole."""

    dtypes: list[str]

    FIRST = 4
    CONDITIONS = {
        "two widths": lambda case: {*case.dtypes} == {"float32", "float64"},
        "integers first": lambda case: {*case.dtypes} == {"float32", "int64"} and case.dtypes[0] == "int64",
        "integers later": lambda case: {*case.dtypes} == {"float32", "int64"} and case.dtypes[0] != "int64",
    }

    @property
    def typed(self) -> list[tuple[Rows, str]]:
        """Samples of each batch, with the dtype of their numbers."""
        return list(zip(self.split, self.dtypes, strict=True))

    @classmethod
    def _pairs(cls, inputs: SampleStrategy) -> tuple[tuple[str, str], ...]:
        integers = (("int64", "float32"), ("float32", "int64")) if inputs.integers else ()
        return (("float64", "float32"), ("float32", "float64"), *integers)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Any]:
        def mixed(pair: tuple[str, str], stream: Stream) -> MixedDtypes:
            dtypes = [pair[0], *[pair[1]] * (len(stream.batches) - 1)]
            return cls(samples=stream.samples, batches=stream.batches, dtypes=dtypes)

        streams = Stream.strategy(inputs).filter(lambda stream: len(stream.batches) > 1)
        return st.builds(mixed, st.sampled_from(cls._pairs(inputs)), streams)

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Every pair of dtypes."""
        return [(n, first_batch(n // 2, n), list(pair)) for pair in cls._pairs(inputs)]


@dataclass(frozen=True, kw_only=True)
class FewKinds(Stream):
    """Ordinary samples of few kinds: one sample, one sample repeated, one kind of prediction; classes are absent."""

    FEWEST, MOST = 1, 5
    CONDITIONS = {**Stream.CONDITIONS, "a batch of one": lambda case: len(case.samples) == 1}

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        change = draw(st.sampled_from([None, inputs.right, inputs.wrong]))
        rows = [change(row) for row in rows] if change and inputs.distinct is None else rows
        return {"samples": rows, **super().draw_plan(draw, inputs, rows)}

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Every kind of the contrast alone, predicted right and wrong: once, repeated, two kinds, and any samples."""
        return [(rows, last_alone(len(rows))) for rows in cls._kinds(inputs)]

    @classmethod
    def _kinds(cls, inputs: SampleStrategy) -> list[Rows]:
        n = cls.fewest(inputs)
        if inputs.distinct is not None:
            several = inputs.fixed(max(n + 2, 2 * n))
            return [several[:n], several[n : 2 * n], several[: n + 2]]
        given = inputs.contrast or inputs.fixed(3)
        kinds = list({repr(row): row for row in given}.values())[:3]
        wrong = [inputs.wrong(row) for row in kinds] if inputs.wrong else []
        alone = [[row] * n for row in (*kinds[:2], *wrong[:1])]
        repeated = [[row] * max(3, n) for row in (*kinds, *wrong[:2])]
        two = list(islice(cycle((*kinds[:2], *wrong[:1])), max(4, n)))
        return [*alone, *repeated, two, inputs.fixed(max(6, n))[-max(5, n) :]]


@dataclass(frozen=True, kw_only=True)
class Repeated(Stream):
    """A stream, and the seed of one of many rows, whose sums are not exact: its last bits show how they were taken."""

    seed: int

    PLAN = {**Stream.PLAN, "seed": lambda *_: st.integers(0, 99)}
    GIVEN: ClassVar[Given] = lambda _, n: (last_alone(n), 0)

    @property
    def bulk(self) -> Bulk:
        """Stream of many rows."""
        return Bulk(seed=self.seed, rows=96)

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Several batches, and a constant stream."""
        return [(*plan, seed) for seed, plan in enumerate(super().first_plans(inputs, n))]


@dataclass(frozen=True, kw_only=True)
class PartlyIgnored(Stream):
    """Samples with positions that must not count among others; ``beside`` are those that must count alike."""

    beside: Rows

    GIVEN = None  # nothing says which samples count alike
    CONDITIONS = _SEVERAL

    @property
    def split_beside(self) -> list[Rows]:
        """Samples that must count alike, in the same batches."""
        return pick(self.beside, self.batches)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Any]:
        least = max(1, inputs.min_samples)
        assert inputs.partly_ignored is not None
        pairs = st.lists(inputs.partly_ignored, min_size=least, max_size=max(4, least))
        plans = pairs.flatmap(lambda drawn: partitions(len(drawn)).map(lambda plan: cls._plan(drawn, plan)))
        return plans.map(lambda plan: cls.made(inputs, *plan))

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Some pairs, each alone where so few have a value, in one batch and in several."""
        least = max(1, inputs.min_samples)
        pairs = inputs.fixed_partly_ignored(_PAIRS + least)
        alone = [cls._plan(pairs[i : i + least], one_batch(least)) for i in range(_PAIRS if pairs else 0)]
        pairs = pairs[: max(4, least)]
        n = len(pairs)
        return [*alone, *(cls._plan(pairs, plan) for plan in ([one_batch(n), first_batch(1, n)] if n > 1 else ()))]

    @classmethod
    def _plan(cls, pairs: Sequence[tuple[Sample, Sample]], plan: Partition) -> tuple[Any, ...]:
        return [one for one, _ in pairs], plan, [other for _, other in pairs]


_PAIRS = 8
"""Number of pairs of samples of which each is tried alone."""


@dataclass(frozen=True, kw_only=True)
class Weighted(Stream):
    """Samples split into batches, each sample with a weight of 0, 1 or 2. Enough of them have a weight for a value."""

    weights: list[int]

    GIVEN: ClassVar[Given] = lambda inputs, n: (last_alone(n), [2 if inputs.distinct is None else 1, *[1] * (n - 1)])
    CONDITIONS = {
        "a weight of zero": lambda case: 0 in case.weights,
        "a weight of two": lambda case: 2 in case.weights,
        "weights of one": lambda case: {*case.weights} <= {1},
    }

    @property
    def batches_with_weights(self) -> list[tuple[Rows, list[int]]]:
        """Samples and weights of each batch."""
        return [(rows, [self.weights[i] for i in batch]) for rows, batch in zip(self.split, self.batches, strict=True)]

    @property
    def repeated(self) -> list[Rows]:
        """Batches with each sample as often as its weight says, without those that are empty then."""
        batches = (
            [row for row, weight in zip(rows, weights, strict=True) for _ in range(weight)]
            for rows, weights in self.batches_with_weights
        )
        return [batch for batch in batches if batch]

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        plan = super().draw_plan(draw, inputs, rows)
        choices = [0, 1, *([2] if inputs.distinct is None else [])]
        weights = [draw(st.sampled_from(choices)) for _ in rows]
        for i in range(len(weights)):  # a value needs so many samples
            if sum(weight > 0 for weight in weights) < inputs.min_samples:
                weights[i] = max(1, weights[i])
        return {**plan, "weights": weights}

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """All weights 1; a sample of each kind with weight 2, and with weight 0; and both at once."""
        size = max(2, inputs.min_samples) + 2
        double, ones = 2 if inputs.distinct is None else 1, [1] * size
        weights = [ones, [double, *ones[1:]], [*ones[:2], double, *ones[3:]], [0, *ones[1:]], [*ones[:2], 0, *ones[3:]]]
        weights += [[*ones[:-1], 0], [double, *ones[1:-1], 0]]
        return [(size, last_alone(size), each) for each in weights]


@dataclass(frozen=True, kw_only=True)
class Long:
    """A stream of ``batches`` batches of ``rows`` rows, whose numbers are of the size ``scale``."""

    seed: int
    rows: int
    batches: int
    scale: float

    @property
    def bulk(self) -> Bulk:
        """Distribution of all rows."""
        return Bulk(seed=self.seed, rows=self.rows * self.batches, scale=self.scale)

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset({"many batches"} if self.batches > 8 else {"few batches"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Long]:
        del inputs
        sizes, scales = st.sampled_from([4, 16]), st.sampled_from([1e2, 1e4])
        return st.builds(cls, seed=st.integers(0, 9), rows=st.integers(1, 4), batches=sizes, scale=scales)

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Long]:
        """Few large numbers, and many batches."""
        del inputs
        return [cls(seed=0, rows=4, batches=2, scale=1e4), cls(seed=0, rows=2, batches=16, scale=1e2)]


@dataclass(frozen=True, kw_only=True)
class Declared:
    """One of the undefined streams that a target declares, in their order, so often one after the other."""

    which: int
    copies: int

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset({"once" if self.copies == 1 else "repeated"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Declared]:
        del inputs
        return st.builds(cls, which=st.integers(0, _MOST_DECLARED - 1), copies=st.integers(1, 3))

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Declared]:
        """Each of the first five once and repeated; what is repeated is as undefined as before."""
        del inputs
        return [cls(which=which, copies=copies) for which in range(_MOST_DECLARED // 2) for copies in (1, 3)]


_MOST_DECLARED = 10
"""Number of undefined streams of one target that are tried for certain."""


@dataclass(frozen=True, kw_only=True)
class Combined(Stream):
    """A stream, and one of `PARTS` parts of the combinations of options."""

    part: int

    PARTS = 4
    PLAN = {**Stream.PLAN, "part": lambda *_: st.integers(0, Combined.PARTS - 1)}
    GIVEN: ClassVar[Given] = lambda _, n: (last_alone(n), 0)
    CONDITIONS = _SEVERAL

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Every part, with samples of all kinds; the first one also with a constant stream."""
        stream, *_, constant = super().first_plans(inputs, n)
        return [*((*stream, part) for part in range(cls.PARTS)), (*constant, 0)]


@dataclass(frozen=True, kw_only=True)
class Unequal(Stream):
    """A batch of samples of which ``kept`` have all of their arguments: at least three, so that none is broadcast."""

    kept: int

    LEAST = 3
    GIVEN: ClassVar[Given] = lambda _, n: (one_batch(n), n - 1) if n > 3 else None
    CONDITIONS = {
        "one is missing": lambda case: case.kept == len(case.samples) - 1,
        "several are missing": lambda case: case.kept < len(case.samples) - 1,
    }

    @property
    def both(self) -> tuple[Rows, Rows]:
        """Samples as they are and backwards: two batches with other rests."""
        return list(self.samples), list(reversed(self.samples))

    @classmethod
    def fewest(cls, inputs: SampleStrategy) -> int:
        return max(cls.LEAST, inputs.min_samples) + 1

    @classmethod
    def draw_samples(cls, inputs: SampleStrategy) -> st.SearchStrategy[Rows]:
        fewest = cls.fewest(inputs)
        return inputs.rows(min_size=fewest, max_size=fewest + 3)

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        kept = draw(st.integers(cls.fewest(inputs) - 1, len(rows) - 1))
        return {"batches": one_batch(len(rows)), "kept": kept}

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Four batches of five samples, in which one or two are missing: a metric may have one value for one."""
        size = cls.fewest(inputs) + 1
        rows = inputs.fixed(4 * size)
        return [(rows[at * size :][:size], one_batch(size), size - 1 - at % 2) for at in range(4)]
