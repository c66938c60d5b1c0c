"""Requests to an engine: prompts that are submitted together, one with others, and programs of many requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Conditions, Draws, Given, Plans, Rows, SamplesAndPlan, fixed_up_to
from pytest_evalcheck.strategies.samples import SampleStrategy

Step = Sequence[Any]
"""A name and its arguments: ``["ask", 0]``."""


@dataclass(frozen=True, kw_only=True)
class Request(SamplesAndPlan):
    """A prompt, others beside it, and the number of tokens of an answer. The first prompt is the one that is judged."""

    tokens: int

    FEWEST = 2
    MOST = 4
    PLAN: ClassVar[Draws] = {"tokens": lambda *_: st.integers(1, 8)}
    GIVEN: ClassVar[Given] = lambda _, n: (6,) if n > 1 else None
    CONDITIONS: ClassVar[Conditions] = {
        "one token": lambda case: case.tokens == 1,
        "several tokens": lambda case: case.tokens > 2,
    }

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Three prompts with answers of several tokens and of one, and other prompts."""
        rows = fixed_up_to(inputs, 5)
        return [(rows[:3], 6), (rows[:2], 1), (rows[2:], 8), (rows[:-3:-1], 4)]


_INDEX = st.integers(0, 2)
_STEP = st.one_of(
    st.tuples(st.sampled_from(["ask", "open", "open", "take", "cancel", "fork"]), _INDEX).map(list),
    st.tuples(st.just("together"), _INDEX, _INDEX).map(list),
    st.just(["evict"]),
)


@dataclass(frozen=True, kw_only=True)
class Program(SamplesAndPlan):
    """Prompts, and steps of requests for them in any order.

    ``["ask", i]`` completes a prompt, ``["fork", i]`` gives it two answers, ``["together", i, j]`` submits two,
    ``["open", i]`` begins a stream, ``["take", k]`` reads a piece of an open one, ``["cancel", k]`` closes it,
    ``["evict"]`` empties the prefix cache. A number is taken modulo the number of prompts, or of open streams.
    """

    steps: list[list[Any]]

    FEWEST = 2
    MOST = 3
    PLAN: ClassVar[Draws] = {"steps": lambda *_: st.lists(_STEP, min_size=2, max_size=8)}
    GIVEN: ClassVar[Given] = lambda _, n: ([list(step) for step in _FIRST[0]],) if n > 1 else None
    CONDITIONS: ClassVar[Conditions] = {
        "a stream is open": lambda case: "open" in case.names[:-1],
        "a request is cancelled": lambda case: (
            "cancel" in case.names[case.names.index("open") :] if "open" in case.names else False
        ),
        "the cache is emptied": lambda case: "evict" in case.names,
    }

    @property
    def names(self) -> list[str]:
        """The names of the steps."""
        return [step[0] for step in self.steps]

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Programs that cancel, evict and fork while a stream is open."""
        rows = fixed_up_to(inputs, 3)
        return [(rows, [list(step) for step in steps]) for steps in _FIRST]


_FIRST: tuple[list[list[Any]], ...] = (
    [["open", 0], ["take", 0], ["evict"], ["take", 0], ["ask", 1]],
    [["open", 0], ["open", 1], ["cancel", 0], ["ask", 2], ["fork", 0]],
    [["ask", 0], ["open", 0], ["together", 1, 0], ["take", 0], ["evict"], ["open", 2], ["cancel", 1], ["ask", 0]],
)


@dataclass(frozen=True, kw_only=True)
class ManyDocuments(SamplesAndPlan):
    """Prompts that are turned into many documents, and the seed of the order in which these are shuffled."""

    seed: int

    MOST = 4
    PLAN: ClassVar[Draws] = {"seed": lambda *_: st.integers(0, 9)}
    GIVEN: ClassVar[Given] = lambda _, n: (0,) if n else None
    CONDITIONS: ClassVar[Conditions] = {"several prompts": lambda case: len(case.samples) > 1}

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Documents of several prompts."""
        return [(fixed_up_to(inputs, 4), 1)]


def turned(row: Any, by: int) -> Any:
    """A prompt of the same tokens that begins later.

    >>> turned([1, 2, 3], 1), turned("ab", 3)
    ([2, 3, 1], 'ba')
    """
    start = by % max(1, len(row))
    return row[start:] + row[:start]


def documents(rows: Rows, count: int) -> Rows:
    """``count`` documents made of a few prompts."""
    return [turned(rows[index % len(rows)], index // len(rows)) for index in range(count)]
