"""What every case is, and the plans that cases are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from hypothesis import strategies as st

from pytest_evalcheck.strategies.samples import Sample, SampleStrategy, drawn_with_seed

Rows = list[Sample]
Cut = list[list[int]]
"""A plan of batches: for each batch, the indices of its samples."""


class Case(Protocol):
    """Samples and a plan, as a frozen dataclass of plain fields.

    A case class may also have ``of(inputs, samples)``, the case of samples that the author of a target gives, and
    ``canonical(inputs)``, the cases that are tried first.
    """

    @property
    def conditions(self) -> frozenset[str]:
        """The conditions that this case reaches."""
        ...

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Any]:
        """How Hypothesis draws such a case from samples."""
        ...


def given_cases(kind: type[Case], inputs: SampleStrategy, examples: Sequence[Sequence[Sample]]) -> list[Any]:
    """The cases of the samples that the author of a target gives, in their order."""
    of = getattr(kind, "of", None)
    made = [of(inputs, list(rows)) for rows in examples] if of else []
    return [case for case in made if case is not None]


def canonical_cases(kind: type[Case], inputs: SampleStrategy, conditions: Sequence[str]) -> list[Any]:
    """The cases that are tried first, at every effort, so that a verdict does not depend on what is drawn.

    They are the same in every run, and reach every one of ``conditions`` that such inputs can reach. A case class
    without ``canonical`` draws some cases with a fixed seed; of those the first ones that reach a condition are taken.
    """
    own = getattr(kind, "canonical", None)
    if own is not None:
        return list({repr(case): case for case in own(inputs)}.values())
    chosen, missing = [], set(conditions)
    for case in drawn_with_seed(kind.strategy(inputs), count=_DRAWN, seed=0) if missing else ():
        if missing & case.conditions:
            chosen.append(case)
            missing -= case.conditions
    return chosen


def fixed_up_to(inputs: SampleStrategy, most: int) -> Rows:
    """``most`` samples that are the same in every run, or as many as there are different ones."""
    for count in range(most, 1, -1):
        try:
            return inputs.fixed(count)
        except ValueError:
            continue
    return inputs.fixed(1)


_DRAWN = 60
"""How many cases are looked through for the conditions of a check."""


def pick(samples: Sequence[Sample], plan: Sequence[Sequence[int]]) -> list[Rows]:
    """The batches that a plan makes of samples."""
    return [[samples[i] for i in batch] for batch in plan]


def cuts(count: int) -> st.SearchStrategy[Cut]:
    """Ways to cut ``count`` samples, in order, into batches that are not empty."""
    if count < 2:
        return st.just([list(range(count))] if count else [])
    ones = [[i] for i in range(count)]
    last_of_one = [list(range(count - 1)), [count - 1]]
    inner = st.integers(1, count - 1)
    # Half of them are neither one batch nor all ones, where weights that are wrong do not show.
    uneven = st.sets(inner, min_size=1, max_size=max(1, count - 2))
    ends = st.one_of(uneven, st.sets(inner)).map(lambda chosen: [0, *sorted(chosen), count])
    anywhere = ends.map(lambda e: [list(range(a, b)) for a, b in pairwise(e)])
    return st.one_of(st.just(last_of_one), anywhere, st.just(ones))


def cut_conditions(plan: Cut) -> set[str]:
    """What a cut into batches reaches."""
    reached = set()
    if len(plan) > 1:
        if len(plan[-1]) == 1 and len(plan[0]) > 1:
            reached.add("a last batch of one")
        if all(len(batch) == 1 for batch in plan):
            reached.add("batches of one")
        if len({len(batch) for batch in plan if batch}) > 1:
            reached.add("uneven batches")
    return reached


@dataclass(frozen=True, kw_only=True)
class RightAndWrong:
    """The same samples with right and with wrong predictions or responses.

    Where nobody says what a wrong one is, they are two lists of different samples.
    """

    right: Rows
    wrong: Rows

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset()

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[RightAndWrong]:
        if inputs.wrong is None:
            rows = inputs.rows(min_size=max(1, inputs.min_samples), max_size=4)
            return st.builds(cls, right=rows, wrong=rows)
        return inputs.rows(max_size=4).map(lambda rows: cls._of_contrast(inputs, rows))

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[RightAndWrong]:
        """The contrast alone and beside other samples; or lists of different samples, each with the next one."""
        if inputs.wrong is not None:
            return [cls._of_contrast(inputs, rows) for rows in ([], inputs.fixed(2))][: 2 - bool(inputs.distinct)]
        n = max(2, inputs.min_samples)
        rows = inputs.fixed(4 * n)
        lists = [rows[i : i + n] for i in range(0, len(rows), n)]
        return [cls(right=one, wrong=other) for one, other in pairwise(lists)]

    @classmethod
    def _of_contrast(cls, inputs: SampleStrategy, rows: Rows) -> RightAndWrong:
        assert inputs.wrong is not None
        right = inputs.right or (lambda sample: sample)
        # The whole contrast every time (some of each class), followed by samples of any kind.
        samples = [right(row) for row in (*inputs.contrast, *(rows if inputs.distinct is None else ()))]
        return cls(right=samples, wrong=[inputs.wrong(sample) for sample in samples])
