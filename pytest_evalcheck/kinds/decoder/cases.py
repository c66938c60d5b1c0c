"""Prompts, and what is done with one batch of them or with batches that follow each other into one cache.

Where padding is not the point, rows are made equally long by repeating their own ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Conditions, Draws, Given, Plans, Rows, SamplesAndPlan, fixed_up_to
from pytest_evalcheck.kinds.common.convention_cases import ConventionCase
from pytest_evalcheck.strategies.samples import SampleStrategy, Side

SIDES: tuple[Side, ...] = ("left", "right")
STOP_STEPS = 5
"""Number of tokens that a row may generate before it is cut off."""


def even(rows: Sequence[Sequence[int]], length: int | None = None) -> Rows:
    """Return rows of one length, by default that of the longest; each repeats its own ids."""
    length = max(map(len, rows), default=0) if length is None else length
    return [[row[index % len(row)] for index in range(length)] for row in rows]


def even_rows(inputs: SampleStrategy, fewest: int, most: int) -> st.SearchStrategy[Rows]:
    """Strategy of rows of one length, that of the longest."""
    return inputs.rows(min_size=fewest, max_size=most).map(even)


def _long_rows(inputs: SampleStrategy, count: int) -> Rows:
    """Rows of one length that are the same in every run: that of the longest, and at least five."""
    rows = fixed_up_to(inputs, count)
    return even(rows, max(5, *map(len, rows)))


def _uneven_rows(inputs: SampleStrategy, count: int) -> Rows:
    """Rows that are the same in every run: a long one, and others of which each is shorter."""
    first, *others = _long_rows(inputs, count)
    return [first, *(row[: 1 + 2 * index] for index, row in reversed(list(enumerate(reversed(others)))))]


_LENGTHS: Conditions = {
    "rows of one length": lambda case: len({*map(len, case.samples)}) <= 1,
    "rows of unequal length": lambda case: len({*map(len, case.samples)}) > 1,
    "one row": lambda case: len(case.samples) == 1,
    "a prompt of one token": lambda case: 1 in map(len, case.samples),
}


@dataclass(frozen=True, kw_only=True)
class Prompts(SamplesAndPlan):
    """Prompts of unequal length."""

    MOST = 3
    GIVEN: ClassVar[Given] = lambda _, n: () if n else None
    CONDITIONS: ClassVar[Conditions] = _LENGTHS

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """One row, and rows of unequal length, of which the last is one token."""
        return [(_long_rows(inputs, 1),), (_uneven_rows(inputs, 3),)]


@dataclass(frozen=True, kw_only=True)
class _PaddedPrompts(SamplesAndPlan):
    """Prompts of unequal length in one batch, with padding on a side."""

    side: Side

    FEWEST, MOST = 2, 3
    CONDITIONS: ClassVar[Conditions] = _LENGTHS

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        if len(set(map(len, rows))) == 1 and draw(st.integers(0, 2)):  # of one length is tried too, but not often
            rows = [rows[0][:1] if len(rows[0]) > 1 else rows[0] * 3, *rows[1:]]
        return {"samples": rows, "side": draw(st.sampled_from(SIDES)), **super().draw_plan(draw, inputs, rows)}


@dataclass(frozen=True, kw_only=True)
class UnevenPrompts(_PaddedPrompts):
    """Prompts of unequal length in one batch, with padding on a side, and how many ids follow in each row."""

    follow: int

    PLAN: ClassVar[Draws] = {"follow": lambda *_: st.integers(1, 2)}
    GIVEN: ClassVar[Given] = lambda _, n: ("left", 1) if n > 1 else None

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Rows of unequal length with padding on each side, the longest first or last, and rows of one length."""
        uneven, longest_last = _uneven_rows(inputs, 3), _uneven_rows(inputs, 2)[::-1]
        same = _long_rows(inputs, 2)
        return [(uneven, "left", 2), (longest_last, "right", 2), (longest_last, "left", 1), (same, "right", 1)]


@dataclass(frozen=True, kw_only=True)
class _ChunkedAfter(_PaddedPrompts):
    """Prompts of unequal length, and the sizes of the chunks of ids that follow."""

    chunks: list[int]

    PLAN: ClassVar[Draws] = {"chunks": lambda *_: st.sampled_from([[1], [1, 1], [2], [2, 1], [1, 2]])}
    CONDITIONS: ClassVar[Conditions] = {
        **_LENGTHS,
        "one token at a time": lambda case: 1 in case.chunks,
        "several tokens at a time": lambda case: max(case.chunks) > 1,
    }

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Rows of unequal length with padding on the left and on the right, and rows of one length."""
        uneven, longest_last = _uneven_rows(inputs, 3), _uneven_rows(inputs, 2)[::-1]
        return [(uneven, "left", [1, 2]), (longest_last, "right", [1]), (_long_rows(inputs, 2), "left", [2, 1])]


@dataclass(frozen=True, kw_only=True)
class ConventionPrompts(ConventionCase, _ChunkedAfter):
    """Prompts of unequal length, the sizes of the chunks of ids that follow, and the convention that comes first."""

    MOST_CONVENTIONS = 8


@dataclass(frozen=True, kw_only=True)
class ChunkedPrompts(SamplesAndPlan):
    """Rows of one length, and the sizes of the chunks in which they are fed."""

    chunks: list[int]

    CONDITIONS: ClassVar[Conditions] = {
        "one token at a time": lambda case: 1 in case.chunks[1:],
        "several tokens at a time": lambda case: any(size > 1 for size in case.chunks[1:]),
    }

    def sizes(self, length: int) -> list[int]:
        """Return the chunks of rows that were cut to a length."""
        return cut_sizes(self.chunks, length)

    @classmethod
    def draw_samples(cls, inputs: SampleStrategy) -> st.SearchStrategy[Rows]:
        return even_rows(inputs, 1, 3)

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        if len(rows[0]) < 4 and draw(st.integers(0, 2)):
            rows = even(rows, 4)  # shorter ones have no room for a chunk of several tokens and others around it
        sizes = draw(st.sampled_from([[1], [2], [2, 1], [1, 2], [3, 1, 1], [1, 3], [1, 2, 1]]))
        while sum(sizes) >= len(rows[0]):  # what is left of the row comes first, and is at least one token
            sizes = sizes[:-1]
        return {"samples": rows, "chunks": [len(rows[0]) - sum(sizes), *sizes]}

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """One token at a time at the end or from the first on, several tokens at once, and both."""
        plans = [(1, (1, 1, 1)), (2, (3, 1)), (3, (1, 2)), (2, (4,))]
        chunked = [(_long_rows(inputs, count), sizes) for count, sizes in plans]
        return [(rows, [len(rows[0]) - sum(sizes), *sizes]) for rows, sizes in chunked]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> ChunkedPrompts | None:
        rows = even(samples)
        return cls(samples=rows, chunks=[1] * len(rows[0])) if rows else None


def cut_sizes(sizes: Sequence[int], length: int) -> list[int]:
    """Return the sizes of chunks, after their rows were cut to a length."""
    cut = [min(size, max(0, length - sum(sizes[:index]))) for index, size in enumerate(sizes)]
    return [size for size in cut if size]


@dataclass(frozen=True, kw_only=True)
class StopTokens(SamplesAndPlan):
    """Prompts of unequal length, and which of the tokens that their rows generate are stop tokens.

    A stop ``(row, step)`` is the token that this row generates at this step; ``prompted`` makes the first id of the
    first prompt one of them, and ``padding`` the id of the padding.
    """

    stops: list[tuple[int, int]]
    prompted: bool
    padding: bool

    FEWEST, MOST = 2, 3
    CONDITIONS: ClassVar[Conditions] = {
        "never": lambda case: not case.stops,
        "at once": lambda case: bool(case.stops) and all(step == 0 for _, step in case.stops),
        "in the middle": lambda case: any(step for _, step in case.stops),
        "a stop token in a prompt": lambda case: case.prompted,
    }

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        stop = st.tuples(st.integers(0, len(rows) - 1), st.integers(0, STOP_STEPS - 2))
        some = st.lists(stop, min_size=1, max_size=2)
        stops = draw(st.one_of(some, some, st.lists(stop, max_size=1)))
        return {"stops": stops, "prompted": draw(st.integers(0, 2).map(bool)), "padding": draw(st.booleans())}

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """No stop, one in the middle, one at once, and rows that stop at different steps."""
        rows = _uneven_rows(inputs, 2)
        both = (rows[::-1], [(0, 1), (1, 3)], True, True)
        return [(rows, [], False, True), (rows, [(0, 2)], False, False), (rows, [(1, 0)], True, False), both]


@dataclass(frozen=True, kw_only=True)
class OverCapacity(SamplesAndPlan):
    """Rows of one length that are to fill a cache, and how many tokens come when it is full."""

    extra: int
    at_once: bool
    """True if all tokens, those that fill it and those beyond, come in one call."""

    PLAN: ClassVar[Draws] = {"extra": lambda *_: st.integers(1, 3), "at_once": lambda *_: st.booleans()}
    CONDITIONS: ClassVar[Conditions] = {
        "a prompt that is too long": lambda case: case.at_once,
        "a token when it is full": lambda case: not case.at_once,
    }

    @classmethod
    def draw_samples(cls, inputs: SampleStrategy) -> st.SearchStrategy[Rows]:
        return even_rows(inputs, 1, 2)

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """One token more and several, after others or all at once."""
        return [(_long_rows(inputs, count), *plan) for count, *plan in ((1, 1, False), (2, 3, False), (2, 1, True))]


Operation = tuple[str, Any]


@dataclass(frozen=True, kw_only=True)
class CacheProgram(SamplesAndPlan):
    """Rows of one length, and what is done to them and to the cache that holds them, in this order.

    ``("feed", n)`` feeds the next ``n`` ids of every row, ``("reorder", [1, 0])``, ``("select", [0])`` and
    ``("repeat", 2)`` say which rows there are from then on, ``("crop", n)`` removes the last ``n`` tokens. An
    operation that the cache does not offer is left out; row numbers are then taken modulo the number of rows.
    """

    program: list[Operation]

    CONDITIONS: ClassVar[Conditions] = {
        "one operation": lambda case: len({name for name, _ in case.program} - {"feed"}) <= 1,
        "several operations": lambda case: len({name for name, _ in case.program} - {"feed"}) > 1,
    }

    @classmethod
    def draw_samples(cls, inputs: SampleStrategy) -> st.SearchStrategy[Rows]:
        return even_rows(inputs, 2, 4)

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        every = draw(st.permutations(["reorder", "select", "crop", "repeat"]))
        names = [name for name in every if draw(st.integers(0, 3))] or every[:1]  # each three times of four
        count, drawn = len(rows), [("feed", len(rows[0]))]
        for name in names:
            operation, count = _operation(draw, name, count)
            drawn += [operation, ("feed", 1)] if draw(st.booleans()) else [operation]
        return {"program": [*drawn, ("feed", 1)] if drawn[-1][0] != "feed" else drawn}

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Each operation alone, and all of them one after the other."""
        rows = _long_rows(inputs, 3)
        turned = [*range(1, len(rows)), 0]  # of three rows not the same as its inverse
        single: list[Operation] = [("reorder", turned), ("select", turned[:-1]), ("repeat", 2), ("crop", 2)]
        every: list[Operation] = [*single[:2], ("feed", 2), ("crop", 1), ("repeat", 2), ("reorder", [1, 1, 0, 3])]
        programs = [*([operation] for operation in single), every]
        return [(rows, [("feed", len(rows[0])), *program, ("feed", 1)]) for program in programs]


def _operation(draw: st.DrawFn, name: str, count: int) -> tuple[Operation, int]:
    row = st.integers(0, count - 1)
    if name == "reorder":
        order = st.one_of(st.permutations(range(count)).map(list), st.lists(row, min_size=count, max_size=count))
        return (name, draw(order)), count
    if name == "select":
        left_out = draw(st.lists(row, min_size=min(1, count - 1), max_size=max(0, count - 2) or count - 1, unique=True))
        return (name, [index for index in range(count) if index not in left_out]), count - len(left_out)
    if name == "repeat":
        return (name, 2), 2 * count
    return (name, draw(st.integers(1, 3))), count


@dataclass(frozen=True, kw_only=True)
class SameBatchSize(SamplesAndPlan):
    """A batch, and another one of as many rows after it."""

    after: Rows

    MOST = 2
    PLAN: ClassVar[Draws] = {"after": lambda inputs, rows: even_rows(inputs, len(rows), len(rows))}
    CONDITIONS: ClassVar[Conditions] = {
        "longer after shorter": lambda case: len(case.after[0]) > len(case.samples[0]),
        "shorter after longer": lambda case: len(case.after[0]) < len(case.samples[0]),
    }

    @classmethod
    def draw_samples(cls, inputs: SampleStrategy) -> st.SearchStrategy[Rows]:
        return even_rows(inputs, 1, 2)

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Longer rows after shorter ones, and shorter ones after longer ones."""
        rows = _long_rows(inputs, 4)
        half = (len(rows) + 1) // 2
        first, second = rows[:half], rows[-half:]
        return [(even(first, 3), second), (first[:1], even(second, 3)[:1])]


@dataclass(frozen=True, kw_only=True)
class SmallerBatch(SamplesAndPlan):
    """A batch, and one of fewer rows after it."""

    after: Rows

    PLAN: ClassVar[Draws] = {"after": lambda inputs, rows: even_rows(inputs, 1, len(rows) - 1)}
    CONDITIONS: ClassVar[Conditions] = {
        "a last batch of one row": lambda case: len(case.after) == 1,
        "a few rows less": lambda case: len(case.after) != 1,
    }

    @classmethod
    def draw_samples(cls, inputs: SampleStrategy) -> st.SearchStrategy[Rows]:
        return even_rows(inputs, 2, 4)

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """One row after two and after three, and two rows after three, which are shorter or longer."""
        rows = _long_rows(inputs, 4)
        plans = [(rows[:2], even(rows[-1:], 3)), (even(rows[:3], 3), rows[-2:]), (rows[:3], rows[-1:])]
        return [(first, after) for first, after in plans if len(after) < len(first)]


@dataclass(frozen=True, kw_only=True)
class OversizedBatch(SamplesAndPlan):
    """A batch of more rows than its cache is made for."""

    cache_rows: int

    CONDITIONS: ClassVar[Conditions] = {
        "one row more": lambda case: len(case.samples) == case.cache_rows + 1,
        "rows times choices": lambda case: len(case.samples) % case.cache_rows == 0,
    }

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[OversizedBatch]:
        def batch(sizes: tuple[int, int]) -> st.SearchStrategy[OversizedBatch]:
            return st.builds(cls, samples=even_rows(inputs, sizes[1], sizes[1]), cache_rows=st.just(sizes[0]))

        return st.sampled_from([(1, 2), (2, 3), (1, 3), (2, 4), (2, 6)]).flatmap(batch)

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Two rows for one, three for two, and four for two."""
        batches = [(_long_rows(inputs, count), room) for count, room in ((2, 1), (3, 2), (4, 2))]
        return [(rows, room) for rows, room in batches if len(rows) > room]


@dataclass(frozen=True, kw_only=True)
class PaddedBatch(SamplesAndPlan):
    """Rows of one length, of which some may be equal, and how many filler rows are added to fill a batch."""

    fillers: int

    # Often some; but with none `results[:-fillers]` is empty.
    PLAN: ClassVar[Draws] = {"fillers": lambda *_: st.one_of(st.integers(0, 3), st.integers(1, 3))}
    CONDITIONS: ClassVar[Conditions] = {
        "no row added": lambda case: not case.fillers,
        "all but one row added": lambda case: len(case.samples) == 1 and case.fillers > 0,
        "equal rows": lambda case: any(case.samples.count(row) > 1 for row in case.samples),
    }

    @classmethod
    def draw_samples(cls, inputs: SampleStrategy) -> st.SearchStrategy[Rows]:
        rows = even_rows(inputs, 1, 3)
        return st.one_of(rows, rows, rows.map(lambda few: [*few, few[0]]))

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Rows to which none is added, one row with others, several rows with one more, and equal rows."""
        first, *others = _long_rows(inputs, 2)
        made = [(_long_rows(inputs, count), added) for count, added in ((2, 0), (1, 2), (3, 1))]
        return [*made, ([first, *others, list(first)], 1)]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> PaddedBatch | None:
        return cls(samples=even(samples), fillers=0) if samples else None


_MANY = 33


@dataclass(frozen=True, kw_only=True)
class LargeBatch(SamplesAndPlan):
    """Rows of one length, and the number of rows of a batch that repeats them."""

    rows: int

    PLAN: ClassVar[Draws] = {"rows": lambda *_: st.sampled_from([_MANY // 2, _MANY - 1, _MANY])}
    CONDITIONS: ClassVar[Conditions] = {"many rows": lambda case: case.rows > _MANY // 2}

    @classmethod
    def draw_samples(cls, inputs: SampleStrategy) -> st.SearchStrategy[Rows]:
        return even_rows(inputs, 1, 2)

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Many copies of two rows."""
        return [(_long_rows(inputs, 2), _MANY)]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> LargeBatch | None:
        return cls(samples=even(samples[:2]), rows=_MANY) if samples else None


@dataclass(frozen=True, kw_only=True)
class DrawnTokens(SamplesAndPlan):
    """One prompt, after which many tokens are drawn."""

    MOST = 1
    GIVEN: ClassVar[Given] = lambda _, n: () if n == 1 else None
    CONDITIONS: ClassVar[Conditions] = {"a prompt": lambda case: bool(case.samples)}

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """A short prompt, after which more than one token is likely."""
        return [(_uneven_rows(inputs, 3)[-1:],)]


@dataclass(frozen=True, kw_only=True)
class ScoredTexts(SamplesAndPlan):
    """Texts, and the number of tokens at the end of each that are its continuation."""

    last: int

    MOST = 3
    PLAN: ClassVar[Draws] = {"last": lambda *_: st.integers(1, 4)}
    GIVEN: ClassVar[Given] = lambda _, n: (1,) if n else None
    CONDITIONS: ClassVar[Conditions] = {
        "a continuation of one token": lambda case: case.last == 1,
        "several tokens": lambda case: case.last > 1,
        "several texts": lambda case: len(case.samples) > 1,
        "equal contexts": lambda case: case.last > 1 or len(case.samples) > 1,
    }

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Texts of unequal length with one token to come and several; one text; two texts that begin alike."""
        uneven, (long,) = _uneven_rows(inputs, 3), _long_rows(inputs, 1)
        return [(uneven, 1), (uneven[::-1], 3), ([long], 2), ([long, [*long[:1], *long[:0:-1]]], 2)]

    def pairs(self, texts: Sequence[Sequence[int]]) -> list[tuple[list[int], list[int]]]:
        """Return contexts and continuations: those of the texts, each context before the others, and all once more.

        Of a continuation of several tokens its beginning is asked for, too.
        """
        cuts = [max(1, len(text) - self.last) for text in texts]
        own = [(list(text[:cut]), list(text[cut:])) for text, cut in zip(texts, cuts, strict=True)]
        others = [(own[0][0], after) for _, after in own[1:]] + [(before, after[:1]) for before, after in own]
        return [*own, *others, *own[:1]]
