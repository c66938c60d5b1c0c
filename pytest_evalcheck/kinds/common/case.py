"""What every case is, and the plans that cases are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from hypothesis import strategies as st

from pytest_evalcheck.strategies.samples import Sample, SampleStrategy

Rows = list[Sample]
Cut = list[list[int]]
"""A plan of batches: for each batch, the indices of its samples."""


class Case(Protocol):
    """Samples and a plan, as a frozen dataclass of plain fields.

    A case class may also have ``of(inputs, samples)``, the canonical case of given samples, and ``always()``, cases
    that are tried every time, the simplest first.
    """

    @property
    def regimes(self) -> frozenset[str]:
        """The regimes that this case reaches."""
        ...

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Any]:
        """How Hypothesis draws such a case from samples."""
        ...


def explicit(kind: type[Case], inputs: SampleStrategy, examples: Sequence[Sequence[Sample]]) -> list[Any]:
    """The cases of a kind that are tried before any is drawn: of the given samples, then the constant ones."""
    of, always = getattr(kind, "of", None), getattr(kind, "always", None)
    given = [of(inputs, list(rows)) for rows in examples] if of else []
    return [*(case for case in given if case is not None), *(always() if always else ())]


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


def cut_regimes(plan: Cut) -> set[str]:
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
    """The same samples with right and with wrong predictions or responses."""

    right: Rows
    wrong: Rows

    @property
    def regimes(self) -> frozenset[str]:
        return frozenset()

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[RightAndWrong]:
        assert inputs.wrong is not None
        wrong, right = inputs.wrong, inputs.right or (lambda sample: sample)

        def pairs(rows: Rows) -> RightAndWrong:
            # The whole contrast every time (some of each class), followed by samples of any kind.
            samples = [right(row) for row in (*inputs.contrast, *(rows if inputs.distinct is None else ()))]
            return cls(right=samples, wrong=[wrong(sample) for sample in samples])

        return inputs.rows(max_size=4).map(pairs)
