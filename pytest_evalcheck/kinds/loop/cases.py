"""The data sets that a loop evaluates, and what happens meanwhile: ranks, training, errors, NaN, little memory."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import assume
from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Rows
from pytest_evalcheck.kinds.common.failing_metric import ERRORS, some_errors
from pytest_evalcheck.strategies.samples import Bulk, SampleStrategy, drawn_with_seed

if TYPE_CHECKING:
    from typing_extensions import Self

MODES = ("every submodule trains", "some submodules are frozen", "every submodule evaluates")
SIZES = (
    "a single sample",
    "fewer samples than a batch",
    "full batches",
    "a last batch of one",
    "a last batch that is not full",
    "a last batch that lacks one",
)
"""The conditions of a number of samples and a batch size."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Samples that are evaluated in batches of one size."""

    samples: Rows
    batch_size: int

    @property
    def conditions(self) -> frozenset[str]:
        return _size_conditions(len(self.samples), self.batch_size)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Self]:
        return _sized(inputs).map(lambda drawn: cls(samples=drawn[0], batch_size=drawn[1]))

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Self]:
        """A last batch of one, fewer samples than a batch, full batches, and a last batch that is not full."""
        return [cls(samples=rows, batch_size=size) for rows, size in _fixed_sizes(inputs)]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Self | None:
        return cls(samples=samples, batch_size=_usual_size(samples)) if _enough(inputs, samples) else None


@dataclass(frozen=True, kw_only=True)
class TwoDatasets:
    """Two data sets that one loop evaluates one after the other."""

    samples: Rows
    others: Rows
    batch_size: int

    @property
    def conditions(self) -> frozenset[str]:
        count, others = len(self.samples), len(self.others)
        return frozenset({f"{'as many' if others == count else 'fewer' if others < count else 'more'} samples"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[TwoDatasets]:
        @st.composite
        def two_datasets(draw: st.DrawFn) -> TwoDatasets:
            rows, size = draw(_sized(inputs, most=4))
            # Often of the same size: state that is kept by its size is then taken for the other's.
            more = draw(st.sampled_from([0, 1, -1, 0]))
            count = max(1, inputs.min_samples, len(rows) + more)
            return cls(samples=rows, others=draw(inputs.rows(min_size=count, max_size=count)), batch_size=size)

        return two_datasets()

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[TwoDatasets]:
        """As many other samples, fewer and more.

        One has three batches, since a loader that reads ahead reads the third when the first was counted.
        """
        least = max(1, inputs.min_samples)
        plans = [(least + 1, least + 1, 1), (least + 2, least, 1), (least + 1, least + 3, 2)]
        rows = [(inputs.fixed(count + others), count, size) for count, others, size in plans]
        return [cls(samples=both[:count], others=both[count:], batch_size=size) for both, count, size in rows]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> TwoDatasets | None:
        if not _enough(inputs, samples):
            return None
        return cls(samples=samples, others=samples[::-1], batch_size=_usual_size(samples))


@dataclass(frozen=True, kw_only=True)
class Ranks(Evaluation):
    """Samples that are sharded over several numbers of ranks, each of which evaluates its shard in batches."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """The numbers of ranks, tried one after the other."""
        return (2, 3, 4)

    @property
    def conditions(self) -> frozenset[str]:
        count = len(self.samples)
        sizes = _size_conditions(count, self.batch_size) & {"a last batch of one", "fewer samples than a batch"}
        empty = {"a rank without samples"} if count < max(self.ranks) else set()
        return sizes | _rank_conditions(count, self.ranks) | empty

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Self]:
        """As many samples as some ranks have, one less than others, one sample alone, and more than all ranks."""
        least = max(1, inputs.min_samples)
        odd = max(3, least + 1 - least % 2)
        counts = dict.fromkeys((odd, least, max(4, least), odd + 2))
        return [cls(samples=inputs.fixed(count), batch_size=2) for count in counts]


@dataclass(frozen=True, kw_only=True)
class ProcessRanks:
    """Samples for real processes: one case tries every number of ranks, since starting processes is slow."""

    samples: Rows
    batch_size: int

    @property
    def ranks(self) -> tuple[int, ...]:
        """The numbers of processes, tried one after the other."""
        return (2, 3)

    @property
    def conditions(self) -> frozenset[str]:
        return _rank_conditions(len(self.samples), self.ranks)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[ProcessRanks]:
        @st.composite
        def process_ranks(draw: st.DrawFn) -> ProcessRanks:
            # Few cases are tried, so each must be uneven for one of the numbers of ranks, and ranks must differ.
            rows = draw(inputs.rows(min_size=max(4, inputs.min_samples), max_size=max(5, inputs.min_samples)))
            assume(rows[-1] not in rows[:-1])  # ranks with the same samples show nothing
            return cls(samples=rows, batch_size=draw(st.sampled_from([1, 2])))

        return process_ranks()

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[ProcessRanks]:
        """Samples that two ranks share evenly and three do not, and samples that no number of ranks shares evenly."""
        even = next(n for n in itertools.count(max(4, inputs.min_samples)) if not n % 2 and n % 3)
        return [cls(samples=inputs.fixed(n), batch_size=size) for n, size in ((even, 1), (even + 1, 2))]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> ProcessRanks | None:
        return cls(samples=samples, batch_size=2) if len(samples) > 2 and _enough(inputs, samples) else None


@dataclass(frozen=True, kw_only=True)
class DuringTraining:
    """Samples that are evaluated while a model trains; then one of them cannot be read."""

    samples: Rows
    batch_size: int
    broken: int
    """The index of the sample that cannot be read."""
    modes: str
    """The modes of the submodules before the evaluation, one of `MODES`."""

    @property
    def conditions(self) -> frozenset[str]:
        batch = "the first batch" if self.broken < self.batch_size else "a later batch"
        return frozenset({self.modes, f"an error in {batch}"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[DuringTraining]:
        @st.composite
        def during_training(draw: st.DrawFn) -> DuringTraining:
            rows = draw(inputs.rows(min_size=max(2, inputs.min_samples), max_size=max(4, inputs.min_samples)))
            size, broken = draw(st.sampled_from([1, 2])), draw(st.sampled_from([len(rows) - 1, 0]))
            return cls(samples=rows, batch_size=size, broken=broken, modes=draw(st.sampled_from(MODES)))

        return during_training()

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[DuringTraining]:
        """An error in the first batch or in a later one, with the modes of training or with others."""
        rows = inputs.fixed(max(3, inputs.min_samples))
        last = len(rows) - 1
        plans = [(1, last, MODES[0]), (2, 0, MODES[1]), (2, last, MODES[1]), (1, last, MODES[2])]
        return [cls(samples=rows, batch_size=size, broken=broken, modes=modes) for size, broken, modes in plans]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> DuringTraining | None:
        if not _enough(inputs, samples):
            return None
        return cls(samples=samples, batch_size=1, broken=len(samples) - 1, modes=MODES[1])


@dataclass(frozen=True, kw_only=True)
class ManyBatches:
    """More batches of one size than most loaders have buffers."""

    samples: Rows
    batch_size: int

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset()

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[ManyBatches]:
        def batches(size: int) -> st.SearchStrategy[ManyBatches]:
            least = max(_MANY * size, inputs.min_samples)
            return st.builds(cls, samples=inputs.rows(min_size=least, max_size=least + size), batch_size=st.just(size))

        return st.sampled_from([1, 2]).flatmap(batches)

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[ManyBatches]:
        """As many batches as that, and one more."""
        counts = dict.fromkeys(max(count, inputs.min_samples) for count in (_MANY, _MANY + 1))
        return [cls(samples=inputs.fixed(count), batch_size=1) for count in counts]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> ManyBatches | None:
        return cls(samples=samples, batch_size=1) if len(samples) >= max(_MANY, inputs.min_samples) else None


_MANY = 4


@dataclass(frozen=True, kw_only=True)
class MetricErrors:
    """Samples, and the errors that a metric function raises: one in each of several evaluations."""

    samples: Rows
    batch_size: int
    errors: list[str]

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset({"one batch" if len(self.samples) <= self.batch_size else "several batches"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[MetricErrors]:
        drawn = st.tuples(_sized(inputs, most=4), some_errors())
        return drawn.map(lambda pair: cls(samples=pair[0][0], batch_size=pair[0][1], errors=pair[1]))

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[MetricErrors]:
        """All errors, half of them in several batches and half in one."""
        rows, half = inputs.fixed(max(2, inputs.min_samples)), len(ERRORS) // 2
        parts = ((1, ERRORS[:half]), (len(rows), ERRORS[half:]))
        return [cls(samples=rows, batch_size=size, errors=list(errors)) for size, errors in parts]


@dataclass(frozen=True, kw_only=True)
class OutOfMemory:
    """Samples that are evaluated while memory runs out in one forward pass, or in two in a row."""

    samples: Rows
    batch_size: int
    times: int

    @property
    def conditions(self) -> frozenset[str]:
        sizes = _size_conditions(len(self.samples), self.batch_size) & {"a last batch of one", "full batches"}
        return sizes | {"one failure" if self.times == 1 else "the retry fails too"}

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[OutOfMemory]:
        least = max(4, inputs.min_samples)
        # Two batches, or two halves of one: samples that came before a failure may count twice.
        return st.builds(
            cls,
            samples=inputs.rows(min_size=least, max_size=least + 2),
            batch_size=st.sampled_from([2, 4, 3]),
            times=st.sampled_from([1, 2]),
        )

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[OutOfMemory]:
        """Batches in two halves of which one fails, full batches of which two fail, and a last batch of one."""
        four = next(n for n in itertools.count(max(4, inputs.min_samples)) if not n % 4)
        plans = [(four, 4, 1), (four, 2, 2), (four + 1, 4, 2), (four + 1, 2, 1)]
        return [cls(samples=inputs.fixed(n), batch_size=size, times=times) for n, size, times in plans]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> OutOfMemory | None:
        return cls(samples=samples, batch_size=2, times=1) if len(samples) > 1 and _enough(inputs, samples) else None


@dataclass(frozen=True, kw_only=True)
class NonFinite:
    """Samples of which one, at the index ``corrupted``, holds NaN or infinity."""

    samples: Rows
    corrupted: int
    number: float
    batch_size: int

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset({"the first sample" if self.corrupted == 0 else "a later sample"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[NonFinite]:
        @st.composite
        def non_finite(draw: st.DrawFn) -> NonFinite:
            rows, size = draw(_sized(inputs, least=2, most=5))
            index, number = draw(st.integers(0, len(rows) - 1)), draw(st.sampled_from(inputs.nonfinite))
            return cls._corrupt(inputs, rows, index, number, size)

        return non_finite()

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[NonFinite]:
        """The first sample, the last one, alone in its batch, and one that shares a batch with all others."""
        rows = inputs.fixed(max(3, inputs.min_samples))
        plans = zip(
            ((0, 2), (len(rows) - 1, len(rows) - 1), (1, len(rows))), itertools.cycle(inputs.nonfinite), strict=False
        )
        return [cls._corrupt(inputs, rows, index, number, size) for (index, size), number in plans]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> NonFinite | None:
        if not _enough(inputs, samples) or inputs.corrupted is None:
            return None
        return cls._corrupt(inputs, samples, 0, inputs.nonfinite[0], _usual_size(samples))

    @classmethod
    def _corrupt(cls, inputs: SampleStrategy, rows: Rows, index: int, number: float, size: int) -> NonFinite:
        assert inputs.corrupted is not None
        rows = [*rows[:index], inputs.corrupted(rows[index], number), *rows[index + 1 :]]
        return cls(samples=rows, corrupted=index, number=number, batch_size=size)


@dataclass(frozen=True, kw_only=True)
class UnselectedSamples:
    """Samples drawn without a search: of samples that were chosen because they fail an interval would be biased.

    Either the samples of an example of the target, or ``rows`` samples drawn by ``seed``.
    """

    samples: Rows
    seed: int
    rows: int

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset({"samples of the target" if self.samples else "samples that were drawn"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[UnselectedSamples]:
        return st.sampled_from(cls.canonical(inputs))

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[UnselectedSamples]:
        """The samples of one seed."""
        del inputs
        return [cls(samples=[], seed=0, rows=_UNSELECTED)]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> UnselectedSamples | None:
        del inputs
        return cls(samples=samples, seed=0, rows=len(samples)) if len(samples) >= _FEWEST_UNSELECTED else None

    def of_inputs(self, inputs: SampleStrategy) -> Rows:
        """The samples: the same in every run, whatever seed Hypothesis has."""
        return self.samples or unselected(inputs, self.rows, self.seed)


_UNSELECTED = 256
_FEWEST_UNSELECTED = 20
"""Examples of a target with fewer samples are for other checks."""
_ATTEMPTS = 5


def unselected(inputs: SampleStrategy, rows: int = _UNSELECTED, seed: int = 0) -> Rows:
    """At most ``rows`` different samples by a seed, from the distribution of the inputs or from their strategy."""
    if inputs.bulk is not None:
        return list(inputs.bulk(Bulk(seed=seed, rows=rows)))
    distinct: dict[object, object] = {}
    for attempt in range(_ATTEMPTS):  # lists that Hypothesis draws hold some samples twice
        before = len(distinct)
        for sample in drawn_with_seed(inputs.sample, count=rows - before, seed=seed * _ATTEMPTS + attempt):
            distinct.setdefault(repr(sample) if inputs.distinct is None else inputs.distinct(sample), sample)
        if len(distinct) in (before, rows):
            break
    return list(distinct.values())


def _size_conditions(count: int, size: int) -> frozenset[str]:
    """Those of `SIZES` that a number of samples and a batch size reach."""
    reached = {"a single sample"} if count == 1 else set()
    if count < size:
        reached.add("fewer samples than a batch")
    elif 1 < size < count:
        rest = count % size
        reached.add({0: "full batches", 1: "a last batch of one"}.get(rest, "a last batch that is not full"))
        if rest == size - 1:
            reached.add("a last batch that lacks one")
    return frozenset(reached)


def _rank_conditions(count: int, numbers: tuple[int, ...]) -> frozenset[str]:
    return frozenset("uneven ranks" if count % ranks else "even ranks" for ranks in numbers)


def _enough(inputs: SampleStrategy, samples: Rows) -> bool:
    return len(samples) >= max(1, inputs.min_samples)


def _usual_size(samples: Rows) -> int:
    """A batch size for given samples: the last batch has one sample."""
    return max(2, len(samples) - 1)


def _fixed_sizes(inputs: SampleStrategy) -> list[tuple[Rows, int]]:
    """Samples that are the same in every run, and batch sizes: together they reach all of `SIZES`."""
    least = max(1, inputs.min_samples)
    odd, even, partial = max(3, least + 1 - least % 2), max(4, least + least % 2), max(5, least + (2 - least) % 3)
    plans = [(odd, 2), (least, least + 1), (even, 2), (partial, 3)]
    # In either order: samples that are in order by chance show nothing about a loop that sorts them.
    return [(inputs.fixed(count)[:: -1 if count == even else 1], size) for count, size in plans]


@st.composite
def _sized(draw: st.DrawFn, inputs: SampleStrategy, *, least: int = 1, most: int = 7) -> tuple[Rows, int]:
    """Samples and a batch size: most often one that leaves a last batch which is not full."""
    least = max(least, inputs.min_samples)
    kind = draw(st.sampled_from(["partial", "full", "beyond", "partial", "ones"]))
    if kind == "partial":
        rows = draw(inputs.rows(min_size=max(least, 3), max_size=max(least, most)))
        return rows, draw(st.sampled_from([size for size in range(2, len(rows)) if len(rows) % size]))
    if kind == "full":
        count = max(least + least % 2, draw(st.sampled_from([4, 6] if most >= 6 else [4])))
        rows = draw(inputs.rows(min_size=count, max_size=count))
        return rows, draw(st.sampled_from([size for size in range(2, count) if not count % size] or [count]))
    rows = draw(inputs.rows(min_size=least, max_size=max(least, 4)))
    return rows, 1 if kind == "ones" else draw(st.sampled_from([max(2, len(rows)), len(rows) + 1, 64]))
