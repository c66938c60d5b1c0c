"""Cases: samples and a plan, with named conditions; and the plans that cases of several kinds are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from hypothesis import strategies as st

from pytest_evalcheck.strategies.samples import Sample, SampleStrategy, drawn_with_seed

if TYPE_CHECKING:
    from typing_extensions import Self

Rows = list[Sample]
Partition = list[list[int]]
"""A plan of batches: for each batch, the indices of its samples."""
Conditions = Mapping[str, Callable[[Any], bool]]
"""Predicates of a case, by name."""
Draws = Mapping[str, Callable[[SampleStrategy, Rows], st.SearchStrategy[Any]]]
"""Functions from the samples to the strategy of a field, by field."""
Given = Callable[[SampleStrategy, int], "tuple[Any, ...] | None"] | None
"""From the number of samples that the author of a target gives to their plan, as values of the fields, or None."""
Plans = Iterable[tuple[Any, ...]]
"""Samples, or a number of them, and the other fields of a case, in their order."""


class Case(Protocol):
    """Samples and a plan, as a frozen dataclass of plain fields.

    A case class may also have ``of(inputs, samples)``, the case of samples that the author of a target gives, and
    ``canonical(inputs)``, the cases that are tried first. `SamplesAndPlan` makes all of them of a few definitions.
    """

    @property
    def conditions(self) -> frozenset[str]:
        """Names of the conditions that this case reaches."""
        ...

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Any]:
        """Strategy that draws such a case from samples."""
        ...


@dataclass(frozen=True, kw_only=True)
class SamplesAndPlan:
    """Samples, and a plan: all fields of a derived class, such as the batches, the ranks or the order of the samples.

    A derived class says how a plan is drawn, which plans are tried first, and by name the conditions that samples and
    plan may fulfil. Its strategy, its canonical cases and the case of given samples follow.
    """

    samples: Rows

    CONDITIONS: ClassVar[Conditions] = MappingProxyType({})
    FEWEST: ClassVar[int] = 1
    MOST: ClassVar[int] = 7
    """Numbers of samples that are drawn, where no more are needed for a value."""
    PLAN: ClassVar[Draws] = MappingProxyType({})
    """Strategies of the fields. One that depends on another field needs a `draw_plan` of the class."""
    GIVEN: ClassVar[Given] = None
    FIRST: ClassVar[int] = 3
    """Number of samples of the canonical cases, where no more are needed for a value."""

    @property
    def conditions(self) -> frozenset[str]:
        """Names of the conditions that this case fulfils."""
        return frozenset(name for name, holds in self.CONDITIONS.items() if holds(self))

    @classmethod
    def fewest(cls, inputs: SampleStrategy) -> int:
        """Number of samples that a case has at least."""
        return max(cls.FEWEST, inputs.min_samples)

    @classmethod
    def draw_samples(cls, inputs: SampleStrategy) -> st.SearchStrategy[Rows]:
        """Strategy of the samples."""
        return inputs.rows(min_size=cls.fewest(inputs), max_size=cls.MOST)

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        """Draw the plan of these samples, by the names of the fields; with ``samples`` other samples in their place."""
        return {name: draw(strategy(inputs, rows)) for name, strategy in cls.PLAN.items()}

    @classmethod
    def given_plan(cls, inputs: SampleStrategy, count: int) -> tuple[Any, ...] | None:
        """Plan of so many samples of the author of a target."""
        return None if cls.GIVEN is None or count < inputs.min_samples else cls.GIVEN(inputs, count)

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Samples and plans that are tried first: a small one of each condition; ``n`` samples are the usual number.

        In place of samples a number stands for so many that are the same in every run. By default the plans are those
        of the smallest cases of some that are drawn.
        """
        del n
        drawn = drawn_with_seed(cls.strategy(inputs), count=_DRAWN, seed=0)
        cases = smallest_cases(drawn, cls.CONDITIONS)
        return [tuple(getattr(case, field.name) for field in fields(cls)) for case in cases]

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Self]:
        """Strategy that draws samples and then their plan."""

        @st.composite
        def drawn(draw: st.DrawFn) -> Any:
            rows = draw(cls.draw_samples(inputs))
            return cls(**{"samples": rows, **cls.draw_plan(draw, inputs, rows)})

        return drawn()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Self | None:
        """Case of samples that the author of a target gives; None where they are too few, or have no plan."""
        plan = cls.given_plan(inputs, len(samples))
        return None if plan is None else cls.made(inputs, samples, *plan)

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Self]:
        """Cases that are tried first, see `first_plans`."""
        return [cls.made(inputs, *each) for each in cls.first_plans(inputs, max(cls.FIRST, inputs.min_samples))]

    @classmethod
    def made(cls, inputs: SampleStrategy, samples: Rows | int, *plan: Any) -> Self:
        """Case of samples, or of so many that are the same in every run, and a plan in the order of the fields."""
        rows = inputs.fixed(samples) if isinstance(samples, int) else samples
        return cls(**dict(zip((field.name for field in fields(cls)), (rows, *plan), strict=True)))


@dataclass(frozen=True, kw_only=True)
class FewSamples(SamplesAndPlan):
    """A few samples: with batches of two, three leave a last batch of one."""

    MOST = 3
    GIVEN: ClassVar[Given] = lambda _, n: () if n else None
    CONDITIONS: ClassVar[Conditions] = {"several samples": lambda case: len(case.samples) > 1}

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Enough for a last batch of one."""
        return [(fixed_up_to(inputs, n),)]


@dataclass(frozen=True, kw_only=True)
class OrdinarySamples(FewSamples):
    """Ordinary samples of few kinds: one, equal ones, two equal ones beside another, and any."""

    MOST = 5
    CONDITIONS: ClassVar[Conditions] = {
        "a single sample": lambda case: len(case.samples) == 1,
        "equal samples": lambda case: len({repr(row) for row in case.samples}) < len(case.samples),
    }

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """One sample, equal ones, two equal ones beside another, and several."""
        least = cls.fewest(inputs)
        several = fixed_up_to(inputs, max(n, least))
        if inputs.distinct is not None:
            return [(several[:least],), (several,)]
        pair = [*several[:1] * max(2, least), several[-1]]
        return [(several[:1] * least,), (several[:1] * max(3, least),), (pair,), (several,)]


def given_cases(kind: type[Case], inputs: SampleStrategy, examples: Sequence[Sequence[Sample]]) -> list[Any]:
    """Return the cases of the samples that the author of a target gives, in their order."""
    of = getattr(kind, "of", None)
    made = [of(inputs, list(rows)) for rows in examples] if of else []
    return [case for case in made if case is not None]


def canonical_cases(kind: type[Case], inputs: SampleStrategy, conditions: Sequence[str]) -> list[Any]:
    """Return the cases that are tried first, at every effort, so that a verdict does not depend on what is drawn.

    They are the same in every run, and reach every one of ``conditions`` that such inputs can reach. Where a case class
    has no ``canonical``, some cases are drawn with a fixed seed: for each condition the smallest that reaches it.
    """
    own = getattr(kind, "canonical", None)
    if own is not None:
        return list({repr(case): case for case in own(inputs)}.values())
    drawn = drawn_with_seed(kind.strategy(inputs), count=_DRAWN, seed=0) if conditions else []
    return smallest_cases(drawn, conditions)


def smallest_cases(cases: Sequence[Any], conditions: Iterable[str]) -> list[Any]:
    """Return the fewest small cases: the smallest one of each condition that no earlier one reaches."""
    chosen: list[Any] = []
    by_size = sorted(cases, key=lambda case: len(repr(case)))
    for condition in conditions:
        if not any(condition in case.conditions for case in chosen):
            chosen += [case for case in by_size if condition in case.conditions][:1]
    return chosen


def fixed_up_to(inputs: SampleStrategy, most: int) -> Rows:
    """Return ``most`` samples that are the same in every run, or as many as there are different ones."""
    for count in range(most, 1, -1):
        try:
            return inputs.fixed(count)
        except ValueError:
            continue
    return inputs.fixed(1)


_DRAWN = 60
"""Number of cases that are looked through for the conditions of a check."""


def pick(samples: Sequence[Sample], plan: Sequence[Sequence[int]]) -> list[Rows]:
    """Return the batches that a plan makes of samples."""
    return [[samples[i] for i in batch] for batch in plan]


def one_batch(count: int) -> Partition:
    """Plan of one batch of all samples."""
    return [list(range(count))]


def last_alone(count: int) -> Partition:
    """Plan of two batches, of which the last has one sample; of one batch where there are no two samples."""
    return [list(range(count - 1)), [count - 1]] if count > 1 else one_batch(count)


def first_batch(size: int, count: int) -> Partition:
    """Plan of two batches, of which the first has ``size`` samples."""
    return [list(range(size)), list(range(size, count))]


def partitions(count: int) -> st.SearchStrategy[Partition]:
    """Strategy of plans that split ``count`` samples, in order, into batches that are not empty."""
    if count < 2:
        return st.just(one_batch(count) if count else [])
    ones = [[i] for i in range(count)]
    inner = st.integers(1, count - 1)
    # Half of them are neither one batch nor all ones, where weights that are wrong do not show.
    uneven = st.sets(inner, min_size=1, max_size=max(1, count - 2))
    ends = st.one_of(uneven, st.sets(inner)).map(lambda chosen: [0, *sorted(chosen), count])
    anywhere = ends.map(lambda e: [list(range(a, b)) for a, b in pairwise(e)])
    return st.one_of(st.just(last_alone(count)), anywhere, st.just(ones))


def with_corrupted(inputs: SampleStrategy, rows: Rows, index: int, number: float) -> Rows:
    """Return the samples with a number that is not finite in one of them."""
    assert inputs.corrupted is not None
    return [*rows[:index], inputs.corrupted(rows[index], number), *rows[index + 1 :]]


@dataclass(frozen=True, kw_only=True)
class RightAndWrong:
    """Same samples with right and with wrong predictions or responses.

    Where nobody says what a wrong one is, they are two lists of different samples.
    """

    right: Rows
    wrong: Rows

    conditions: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[RightAndWrong]:
        if inputs.wrong is None:
            rows = inputs.rows(min_size=max(1, inputs.min_samples), max_size=4)
            return st.builds(cls, right=rows, wrong=rows)
        return inputs.rows(max_size=4).map(lambda rows: cls._contrasted(inputs, rows))

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[RightAndWrong]:
        """The contrast alone and beside other samples; or lists of different samples, each with the next one."""
        if inputs.wrong is not None:
            return [cls._contrasted(inputs, rows) for rows in ([], inputs.fixed(2))][: 2 - bool(inputs.distinct)]
        n = max(2, inputs.min_samples)
        rows = inputs.fixed(4 * n)
        return [cls(right=one, wrong=other) for one, other in pairwise(rows[i : i + n] for i in range(0, 4 * n, n))]

    @classmethod
    def _contrasted(cls, inputs: SampleStrategy, rows: Rows) -> RightAndWrong:
        assert inputs.wrong is not None
        right = inputs.right or (lambda sample: sample)
        # The whole contrast every time (some of each class), followed by samples of any kind.
        samples = [right(row) for row in (*inputs.contrast, *(rows if inputs.distinct is None else ()))]
        return cls(right=samples, wrong=[inputs.wrong(sample) for sample in samples])
