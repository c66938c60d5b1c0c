"""Data sets that a loop evaluates, and what happens meanwhile: ranks, training, errors, NaN, little memory."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import assume
from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Conditions, Draws, Given, Plans, Rows, SamplesAndPlan, with_corrupted
from pytest_evalcheck.kinds.common.failing_metric import ERRORS, some_errors
from pytest_evalcheck.strategies.samples import Bulk, SampleStrategy, drawn_with_seed

MODES = ("every submodule trains", "some submodules are frozen", "every submodule evaluates")
_SIZES: Conditions = {
    "a single sample": lambda case: len(case.samples) == 1,
    "fewer samples than a batch": lambda case: len(case.samples) < case.batch_size,
    "full batches": lambda case: _rest(case) == 0,
    "a last batch of one": lambda case: _rest(case) == 1,
    "a last batch that is not full": lambda case: (_rest(case) or 0) > 1,
    "a last batch that lacks one": lambda case: _rest(case) == case.batch_size - 1,
}
SIZES = tuple(_SIZES)
"""Conditions of a number of samples and a batch size."""


def _rest(case: Any) -> int | None:
    """Number of samples that full batches leave; None where all samples are one batch, or each is one."""
    return len(case.samples) % case.batch_size if 1 < case.batch_size < len(case.samples) else None


@dataclass(frozen=True, kw_only=True)
class Evaluation(SamplesAndPlan):
    """Samples that are evaluated in batches of one size."""

    batch_size: int

    LEAST: ClassVar[int] = 1
    GIVEN: ClassVar[Given] = lambda _, n: (_usual_size(n),) if n else None
    CONDITIONS: ClassVar[Conditions] = _SIZES

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Any]:
        @st.composite
        def evaluations(draw: st.DrawFn) -> Any:
            rows, size = draw(sized(inputs, least=cls.LEAST, most=cls.MOST))
            return cls(**{"samples": rows, "batch_size": size, **cls.draw_plan(draw, inputs, rows)})

        return evaluations()

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """A last batch of one, fewer samples than a batch, full batches, and a last batch that is not full."""
        least = cls.fewest(inputs)
        odd, even, partial = max(3, least + 1 - least % 2), max(4, least + least % 2), max(5, least + (2 - least) % 3)
        # In either order: samples that are in order by chance show nothing about a loop that sorts them.
        return [(odd, 2), (least, least + 1), (inputs.fixed(even)[::-1], 2), (partial, 3)]


@dataclass(frozen=True, kw_only=True)
class Interruptions(Evaluation):
    """Samples that are evaluated in parts: the number of batches of each, before the last one."""

    stops: list[int]

    GIVEN: ClassVar[Given] = lambda _, n: (1, [1]) if n else None
    PLAN: ClassVar[Draws] = {"stops": lambda *_: st.lists(st.integers(0, 3), min_size=1, max_size=3)}
    CONDITIONS: ClassVar[Conditions] = {
        "before the first batch": lambda case: case.stops[0] == 0,
        "in the middle": lambda case: 0 < sum(case.stops) * case.batch_size < len(case.samples),
        "after the last batch": lambda case: sum(case.stops) * case.batch_size >= len(case.samples),
        "twice": lambda case: sum(map(bool, case.stops)) > 1,
        "twice with no batch between": lambda case: 0 in case.stops[1:],
    }

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Once at each place, twice, and twice with no batch between."""
        many = max(4, cls.fewest(inputs))
        return [(many, 1, stops) for stops in ([2], [0], [1, 2], [2, 0])] + [(many, 2, [1, many // 2])]


@dataclass(frozen=True, kw_only=True)
class TwoDatasets(SamplesAndPlan):
    """Two data sets that one loop evaluates one after the other."""

    others: Rows
    batch_size: int

    CONDITIONS: ClassVar[Conditions] = {
        "as many samples": lambda case: len(case.others) == len(case.samples),
        "fewer samples": lambda case: len(case.others) < len(case.samples),
        "more samples": lambda case: len(case.others) > len(case.samples),
    }

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[TwoDatasets]:
        @st.composite
        def two_datasets(draw: st.DrawFn) -> TwoDatasets:
            rows, size = draw(sized(inputs, most=4))
            # Often of the same size: state that is kept by its size is then taken for the other's.
            more = draw(st.sampled_from([0, 1, -1, 0]))
            count = max(1, inputs.min_samples, len(rows) + more)
            return cls(samples=rows, others=draw(inputs.rows(min_size=count, max_size=count)), batch_size=size)

        return two_datasets()

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Other samples: as many, fewer and more.

        One has three batches, since a loader that reads ahead reads the third when the first was counted.
        """
        least = cls.fewest(inputs)
        plans = [(least + 1, least + 1, 1), (least + 2, least, 1), (least + 1, least + 3, 2)]
        rows = [(inputs.fixed(count + others), count, size) for count, others, size in plans]
        return [(both[:count], both[count:], size) for both, count, size in rows]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> TwoDatasets | None:
        enough = len(samples) >= cls.fewest(inputs)
        return cls(samples=samples, others=samples[::-1], batch_size=_usual_size(len(samples))) if enough else None


@dataclass(frozen=True, kw_only=True)
class Ranks(Evaluation):
    """Samples that are sharded over several numbers of ranks, each of which evaluates its shard in batches."""

    RANKS: ClassVar[tuple[int, ...]] = (2, 3, 4)
    """Numbers of ranks, tried one after the other."""
    CONDITIONS: ClassVar[Conditions] = {
        "even ranks": lambda case: any(len(case.samples) % ranks == 0 for ranks in case.RANKS),
        "uneven ranks": lambda case: any(len(case.samples) % ranks for ranks in case.RANKS),
        "a rank without samples": lambda case: len(case.samples) < max(case.RANKS),
        "a last batch of one": _SIZES["a last batch of one"],
        "fewer samples than a batch": _SIZES["fewer samples than a batch"],
    }

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Samples: as many as some ranks have, one less than others, one sample alone, and more than all ranks."""
        least = cls.fewest(inputs)
        odd = max(3, least + 1 - least % 2)
        return [(count, 2) for count in dict.fromkeys((odd, least, max(4, least), odd + 2))]


@dataclass(frozen=True, kw_only=True)
class ProcessRanks(Ranks):
    """Samples for real processes: one case tries every number of ranks, since starting processes is slow."""

    RANKS = (2, 3)
    GIVEN: ClassVar[Given] = lambda _, n: (2,) if n > 2 else None

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Any]:
        @st.composite
        def process_ranks(draw: st.DrawFn) -> ProcessRanks:
            # Few cases are tried, so each must be uneven for one of the numbers of ranks, and ranks must differ.
            rows = draw(inputs.rows(min_size=max(4, inputs.min_samples), max_size=max(5, inputs.min_samples)))
            assume(rows[-1] not in rows[:-1])  # ranks with the same samples show nothing
            return cls(samples=rows, batch_size=draw(st.sampled_from([1, 2])))

        return process_ranks()

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Samples that two ranks share evenly and three do not, and samples that no number of ranks shares evenly."""
        even = next(n for n in itertools.count(max(4, inputs.min_samples)) if not n % 2 and n % 3)
        return [(even, 1), (even + 1, 2)]


@dataclass(frozen=True, kw_only=True)
class DuringTraining(SamplesAndPlan):
    """Samples that are evaluated while a model trains; then one of them cannot be read."""

    batch_size: int
    broken: int
    """The index of the sample that cannot be read."""
    modes: str
    """The modes of the submodules before the evaluation, one of `MODES`."""

    FEWEST, MOST = 2, 4
    PLAN: ClassVar[Draws] = {
        "batch_size": lambda *_: st.sampled_from([1, 2]),
        "broken": lambda _, rows: st.sampled_from([len(rows) - 1, 0]),
        "modes": lambda *_: st.sampled_from(MODES),
    }
    GIVEN: ClassVar[Given] = lambda _, n: (1, n - 1, MODES[1]) if n else None
    CONDITIONS: ClassVar[Conditions] = {
        "an error in the first batch": lambda case: case.broken < case.batch_size,
        "an error in a later batch": lambda case: case.broken >= case.batch_size,
        MODES[0]: lambda case: case.modes == MODES[0],
        MODES[1]: lambda case: case.modes == MODES[1],
        MODES[2]: lambda case: case.modes == MODES[2],
    }

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """An error in the first batch or in a later one, with the modes of training or with others."""
        return [(n, 1, n - 1, MODES[0]), (n, 2, 0, MODES[1]), (n, 2, n - 1, MODES[1]), (n, 1, n - 1, MODES[2])]


_MANY = 4
"""Number of batches that is more than most loaders have buffers."""


@dataclass(frozen=True, kw_only=True)
class ManyBatches(SamplesAndPlan):
    """More batches of one size than most loaders have buffers."""

    batch_size: int

    FIRST = 1
    GIVEN: ClassVar[Given] = lambda _, n: (1,) if n >= _MANY else None

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[ManyBatches]:
        def batches(size: int) -> st.SearchStrategy[ManyBatches]:
            least = max(_MANY * size, inputs.min_samples)
            return st.builds(cls, samples=inputs.rows(min_size=least, max_size=least + size), batch_size=st.just(size))

        return st.sampled_from([1, 2]).flatmap(batches)

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Just enough batches, and one more."""
        return [(count, 1) for count in dict.fromkeys((max(_MANY, n), max(_MANY + 1, n)))]


@dataclass(frozen=True, kw_only=True)
class MetricErrors(Evaluation):
    """Samples, and the errors that a metric function raises: one in each of several evaluations."""

    errors: list[str]

    MOST, FIRST = 4, 2
    PLAN: ClassVar[Draws] = {"errors": lambda *_: some_errors()}
    GIVEN: ClassVar[Given] = None
    CONDITIONS: ClassVar[Conditions] = {
        "one batch": lambda case: len(case.samples) <= case.batch_size,
        "several batches": lambda case: len(case.samples) > case.batch_size,
    }

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """All errors, half of them in several batches and half in one."""
        half = len(ERRORS) // 2
        return [(n, 1, [*ERRORS[:half]]), (n, n, [*ERRORS[half:]])]


@dataclass(frozen=True, kw_only=True)
class OutOfMemory(SamplesAndPlan):
    """Samples that are evaluated while memory runs out in one forward pass, or in two in a row."""

    batch_size: int
    times: int

    # Two batches, or two halves of one: samples that came before a failure may count twice.
    PLAN: ClassVar[Draws] = {
        "batch_size": lambda *_: st.sampled_from([2, 4, 3]),
        "times": lambda *_: st.sampled_from([1, 2]),
    }
    GIVEN: ClassVar[Given] = lambda _, n: (2, 1) if n > 1 else None
    CONDITIONS: ClassVar[Conditions] = {
        "full batches": _SIZES["full batches"],
        "a last batch of one": _SIZES["a last batch of one"],
        "one failure": lambda case: case.times == 1,
        "the retry fails too": lambda case: case.times > 1,
    }

    @classmethod
    def draw_samples(cls, inputs: SampleStrategy) -> st.SearchStrategy[Rows]:
        least = max(4, inputs.min_samples)
        return inputs.rows(min_size=least, max_size=least + 2)

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Batches in two halves of which one fails, full batches of which two fail, and a last batch of one."""
        four = next(n for n in itertools.count(max(4, inputs.min_samples)) if not n % 4)
        return [(four, 4, 1), (four, 2, 2), (four + 1, 4, 2), (four + 1, 2, 1)]


@dataclass(frozen=True, kw_only=True)
class NonFinite(SamplesAndPlan):
    """Samples of which one, at the index ``corrupted``, holds NaN or infinity."""

    corrupted: int
    number: float
    batch_size: int

    CONDITIONS: ClassVar[Conditions] = {
        "the first sample": lambda case: case.corrupted == 0,
        "a later sample": lambda case: case.corrupted > 0,
    }

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[NonFinite]:
        @st.composite
        def non_finite(draw: st.DrawFn) -> NonFinite:
            rows, size = draw(sized(inputs, least=2, most=5))
            index, number = draw(st.integers(0, len(rows) - 1)), draw(st.sampled_from(inputs.nonfinite))
            return cls.made(inputs, with_corrupted(inputs, rows, index, number), index, number, size)

        return non_finite()

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """The first sample, the last one, alone in its batch, and one that shares a batch with all others."""
        places = zip(((0, 2), (n - 1, n - 1), (1, n)), itertools.cycle(inputs.nonfinite), strict=False)
        rows = inputs.fixed(n)
        return [(with_corrupted(inputs, rows, index, number), index, number, size) for (index, size), number in places]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> NonFinite | None:
        if len(samples) < cls.fewest(inputs) or inputs.corrupted is None:
            return None
        number = inputs.nonfinite[0]
        return cls.made(inputs, with_corrupted(inputs, samples, 0, number), 0, number, _usual_size(len(samples)))


@dataclass(frozen=True, kw_only=True)
class UnselectedSamples(SamplesAndPlan):
    """Samples drawn without a search: of samples that were chosen because they fail an interval would be biased.

    Either the samples of an example of the target, or ``rows`` samples drawn by ``seed``.
    """

    seed: int
    rows: int

    CONDITIONS: ClassVar[Conditions] = {
        "samples of the target": lambda case: bool(case.samples),
        "samples that were drawn": lambda case: not case.samples,
    }

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[UnselectedSamples]:
        return st.sampled_from(cls.canonical(inputs))

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """The samples of one seed."""
        return [([], 0, _UNSELECTED)]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> UnselectedSamples | None:
        return cls(samples=samples, seed=0, rows=len(samples)) if len(samples) >= _FEWEST_UNSELECTED else None

    def rows_for(self, inputs: SampleStrategy) -> Rows:
        """Samples that are the same in every run, whatever seed Hypothesis has."""
        return self.samples or unselected(inputs, self.rows, self.seed)


_UNSELECTED = 256
_FEWEST_UNSELECTED = 20
"""Examples of a target with fewer samples are for other checks."""
_ATTEMPTS = 5


def unselected(inputs: SampleStrategy, rows: int = _UNSELECTED, seed: int = 0) -> Rows:
    """Draw at most ``rows`` different samples by a seed, from the distribution of the inputs or from their strategy."""
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


def _usual_size(count: int) -> int:
    """Batch size for given samples: the last batch has one sample."""
    return max(2, count - 1)


@st.composite
def sized(draw: st.DrawFn, inputs: SampleStrategy, *, least: int = 1, most: int = 7) -> tuple[Rows, int]:
    """Strategy of samples and a batch size: most often one that leaves a last batch which is not full."""
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
