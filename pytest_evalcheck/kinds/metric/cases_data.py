"""Streams for a metric that are ordinary and extreme: of few kinds, undefined, weighted, of large numbers, long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Cut, Rows, cuts, pick
from pytest_evalcheck.kinds.metric.cases import Cast, Stream
from pytest_evalcheck.strategies.samples import Bulk, Sample, SampleStrategy


@dataclass(frozen=True, kw_only=True)
class FewKinds(Stream):
    """Ordinary samples of few kinds: one sample, one sample repeated, one kind of prediction; classes are absent."""

    @property
    def conditions(self) -> frozenset[str]:
        return super().conditions | ({"a batch of one"} if len(self.samples) == 1 else set())

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[FewKinds]:
        @st.composite
        def few_kinds(draw: st.DrawFn) -> FewKinds:
            rows = draw(inputs.rows(min_size=max(1, inputs.min_samples), max_size=5))
            change = draw(st.sampled_from([None, inputs.right, inputs.wrong]))
            rows = [change(row) for row in rows] if change and inputs.distinct is None else rows
            return cls(samples=rows, batches=draw(cuts(len(rows))))

        return few_kinds()

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Any]:
        """Every kind of the contrast alone, predicted right and wrong: once, repeated, two kinds, and any samples."""
        n = max(1, inputs.min_samples)
        if inputs.distinct is not None:
            several = inputs.fixed(max(n + 2, 2 * n))
            return [cls._of(rows) for rows in (several[:n], several[n : 2 * n], several[: n + 2])]
        given = inputs.contrast or inputs.fixed(3)
        kinds = list({repr(row): row for row in given}.values())[:3]
        wrong = [inputs.wrong(row) for row in kinds] if inputs.wrong else []
        alone = [[row] * n for row in (*kinds[:2], *wrong[:1])]
        repeated = [[row] * max(3, n) for row in (*kinds, *wrong[:2])]
        two = list(islice(cycle((*kinds[:2], *wrong[:1])), max(4, n)))
        several = inputs.fixed(max(6, n))[-max(5, n) :]
        return [cls._of(rows) for rows in (*alone, *repeated, two, several)]

    @classmethod
    def _of(cls, rows: Rows) -> FewKinds:
        n = len(rows)
        return cls(samples=rows, batches=[list(range(n - 1)), [n - 1]] if n > 1 else [[0]])


@dataclass(frozen=True, kw_only=True)
class Foreign(Cast):
    """Samples split into batches whose numbers arrive as another dtype, wider ones too, before a reset."""

    @classmethod
    def _dtypes(cls, inputs: SampleStrategy) -> list[str]:
        return ["float16", "float64", *(["int64", "uint8"] if inputs.integers else [])]


@dataclass(frozen=True, kw_only=True)
class Repeated(Stream):
    """A stream, and the seed of one of many rows, whose sums are not exact: its last bits show how they were taken."""

    seed: int

    @property
    def many(self) -> Bulk:
        """The stream of many rows."""
        return Bulk(seed=self.seed, rows=96)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Repeated]:
        return st.builds(cls._at, Stream.strategy(inputs), st.integers(0, 99))

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Any]:
        """Several batches, and a constant stream."""
        return [cls._at(stream, seed) for seed, stream in enumerate(Stream.canonical(inputs))]

    @classmethod
    def _at(cls, stream: Stream, seed: int) -> Repeated:
        return cls(samples=stream.samples, batches=stream.batches, seed=seed)


@dataclass(frozen=True, kw_only=True)
class PartlyIgnored(Stream):
    """Samples with positions that must not count among others; ``beside`` are those that must count alike."""

    beside: Rows

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset({"several batches" if len(self.batches) > 1 else "one batch"})

    @property
    def cut_beside(self) -> list[Rows]:
        """The samples that must count alike, in the same batches."""
        return pick(self.beside, self.batches)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[PartlyIgnored]:
        least = max(1, inputs.min_samples)
        assert inputs.partly_ignored is not None
        pairs = st.lists(inputs.partly_ignored, min_size=least, max_size=max(4, least))
        return pairs.flatmap(lambda drawn: cuts(len(drawn)).map(lambda plan: cls._of(drawn, plan)))

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Any]:
        """Some pairs, each alone where so few have a value, in one batch and in several."""
        least = max(1, inputs.min_samples)
        pairs = inputs.fixed_partly_ignored(_PAIRS + least)
        alone = [cls._of(pairs[i : i + least], [list(range(least))]) for i in range(_PAIRS if pairs else 0)]
        pairs = pairs[: max(4, least)]
        n = len(pairs)
        plans = [[list(range(n))], [[0], list(range(1, n))]] if n > 1 else []
        return [*alone, *(cls._of(pairs, plan) for plan in plans)]

    @classmethod
    def _of(cls, pairs: Sequence[tuple[Sample, Sample]], plan: Cut) -> PartlyIgnored:
        return cls(samples=[one for one, _ in pairs], beside=[other for _, other in pairs], batches=plan)


_PAIRS = 8
"""How many pairs of samples are tried each alone."""


@dataclass(frozen=True, kw_only=True)
class Weighted(Stream):
    """Samples split into batches, each sample with a weight of 0, 1 or 2. Enough of them have a weight for a value."""

    weights: list[int]

    @property
    def batches_with_weights(self) -> list[tuple[Rows, list[int]]]:
        """The samples and the weights of each batch."""
        return [(rows, [self.weights[i] for i in batch]) for rows, batch in zip(self.cut, self.batches, strict=True)]

    @property
    def repeated(self) -> list[Rows]:
        """The batches with each sample as often as its weight says, without those that are empty then."""
        batches = (
            [row for row, weight in zip(rows, weights, strict=True) for _ in range(weight)]
            for rows, weights in self.batches_with_weights
        )
        return [batch for batch in batches if batch]

    @property
    def conditions(self) -> frozenset[str]:
        names = {0: "a weight of zero", 1: "weights of one", 2: "a weight of two"}
        return frozenset({names[weight] for weight in self.weights if weight != 1} or {names[1]})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Weighted]:
        @st.composite
        def weighted(draw: st.DrawFn) -> Weighted:
            stream = draw(Stream.strategy(inputs))
            choices = [0, 1, *([2] if inputs.distinct is None else [])]
            weights = [draw(st.sampled_from(choices)) for _ in stream.samples]
            for i in range(len(weights)):  # a value needs so many samples
                if sum(weight > 0 for weight in weights) < inputs.min_samples:
                    weights[i] = max(1, weights[i])
            return cls(samples=stream.samples, batches=stream.batches, weights=weights)

        return weighted()

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Any]:
        """All weights 1; a sample of each kind with weight 2, and with weight 0; and both at once."""
        n = max(2, inputs.min_samples)
        size, double = n + 2, 2 if inputs.distinct is None else 1
        rows, batches = inputs.fixed(size), [list(range(size - 1)), [size - 1]]
        ones = [1] * size
        plans = [ones, [double, *ones[1:]], [*ones[:2], double, *ones[3:]], [0, *ones[1:]], [*ones[:2], 0, *ones[3:]]]
        plans += [[*ones[:-1], 0], [double, *ones[1:-1], 0]]
        return [cls(samples=rows, batches=batches, weights=plan) for plan in plans]


@dataclass(frozen=True, kw_only=True)
class Long:
    """A stream of ``batches`` batches of ``rows`` rows, whose numbers are of the size ``scale``."""

    seed: int
    rows: int
    batches: int
    scale: float

    @property
    def bulk(self) -> Bulk:
        """The distribution of all rows."""
        return Bulk(seed=self.seed, rows=self.rows * self.batches, scale=self.scale)

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset({"many batches"} if self.batches > 8 else {"few batches"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Long]:
        del inputs
        return st.builds(
            cls,
            seed=st.integers(0, 9),
            rows=st.integers(1, 4),
            batches=st.sampled_from([4, 16]),
            scale=st.sampled_from([1e2, 1e4]),
        )

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
"""So many undefined streams of one target are tried for certain."""


@dataclass(frozen=True, kw_only=True)
class Combined(Stream):
    """A stream, and one of `PARTS` parts of the combinations of options."""

    part: int

    PARTS = 4

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset({"several batches"} if len(self.batches) > 1 else {"one batch"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Combined]:
        return st.builds(cls._at, Stream.strategy(inputs), st.integers(0, cls.PARTS - 1))

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Any]:
        """Every part, with samples of all kinds; the first one also with a constant stream."""
        stream, *_, constant = Stream.canonical(inputs)
        return [*(cls._at(stream, part) for part in range(cls.PARTS)), cls._at(constant, 0)]

    @classmethod
    def _at(cls, stream: Stream, part: int) -> Combined:
        return cls(samples=stream.samples, batches=stream.batches, part=part)


@dataclass(frozen=True, kw_only=True)
class Unequal(Stream):
    """A batch of samples of which ``kept`` have all of their arguments: at least three, so that none is broadcast."""

    kept: int

    LEAST = 3

    @property
    def both(self) -> tuple[Rows, Rows]:
        """The samples as they are and backwards: two batches with other rests."""
        return list(self.samples), list(reversed(self.samples))

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset({"one is missing" if self.kept == len(self.samples) - 1 else "several are missing"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Unequal]:
        @st.composite
        def unequal(draw: st.DrawFn) -> Unequal:
            least = max(cls.LEAST, inputs.min_samples)
            rows = draw(inputs.rows(min_size=least + 1, max_size=least + 4))
            return cls._at(rows, draw(st.integers(least, len(rows) - 1)))

        return unequal()

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Any]:
        """Four batches of five samples, in which one or two are missing: a metric may have one value for one."""
        size = max(cls.LEAST, inputs.min_samples) + 2
        rows = inputs.fixed(4 * size)
        return [cls._at(rows[at * size :][:size], size - 1 - at % 2) for at in range(4)]

    @classmethod
    def _at(cls, rows: Rows, kept: int) -> Unequal:
        return cls(samples=rows, batches=[list(range(len(rows)))], kept=kept)
