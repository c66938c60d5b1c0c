"""Prompts, and what is done with one batch of them or with batches that follow each other into one cache.

Where padding is not the point, rows are made equally long by repeating their own ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Rows, fixed_up_to
from pytest_evalcheck.strategies.samples import SampleStrategy, Side

SIDES: tuple[Side, ...] = ("left", "right")
STOP_STEPS = 5
"""How many tokens a row may generate before it is cut off."""


def even(rows: Sequence[Sequence[int]], length: int | None = None) -> Rows:
    """Rows of one length, by default that of the longest; each repeats its own ids."""
    length = max(map(len, rows), default=0) if length is None else length
    return [[row[index % len(row)] for index in range(length)] for row in rows]


def even_rows(inputs: SampleStrategy, fewest: int, most: int) -> st.SearchStrategy[Rows]:
    """Rows of one length, that of the longest."""
    return inputs.rows(min_size=fewest, max_size=most).map(even)


def _long_rows(inputs: SampleStrategy, count: int) -> Rows:
    """Rows of one length that are the same in every run: that of the longest, and at least five."""
    rows = fixed_up_to(inputs, count)
    return even(rows, max(5, *map(len, rows)))


def _uneven_rows(inputs: SampleStrategy, count: int) -> Rows:
    """Rows that are the same in every run: a long one, and others of which each is shorter."""
    first, *others = _long_rows(inputs, count)
    return [first, *(row[: 1 + 2 * index] for index, row in reversed(list(enumerate(reversed(others)))))]


def _reached(conditions: Mapping[str, bool]) -> frozenset[str]:
    return frozenset(name for name, reached in conditions.items() if reached)


def _length_conditions(rows: Rows) -> frozenset[str]:
    lengths = [len(row) for row in rows]
    even = "rows of one length" if len(set(lengths)) <= 1 else "rows of unequal length"
    return _reached({even: True, "one row": len(rows) == 1, "a prompt of one token": 1 in lengths})


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """Prompts of unequal length."""

    samples: Rows

    @property
    def conditions(self) -> frozenset[str]:
        return _length_conditions(self.samples)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Prompts]:
        return st.builds(cls, samples=inputs.rows(min_size=1, max_size=3))

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Prompts]:
        """One row, and rows of unequal length, of which the last is one token."""
        return [cls(samples=_long_rows(inputs, 1)), cls(samples=_uneven_rows(inputs, 3))]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Prompts | None:
        return cls(samples=samples) if samples else None


@dataclass(frozen=True, kw_only=True)
class UnevenPrompts:
    """Prompts of unequal length in one batch, with padding on a side, and how many ids follow in each row."""

    samples: Rows
    side: Side
    follow: int

    @property
    def conditions(self) -> frozenset[str]:
        return _length_conditions(self.samples)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[UnevenPrompts]:
        @st.composite
        def prompts(draw: st.DrawFn) -> UnevenPrompts:
            rows = draw(inputs.rows(min_size=2, max_size=3))
            if len(set(map(len, rows))) == 1 and draw(st.integers(0, 2)):  # of one length is tried too, but not often
                rows[0] = rows[0][:1] if len(rows[0]) > 1 else rows[0] * 3
            return cls(samples=rows, side=draw(st.sampled_from(SIDES)), follow=draw(st.integers(1, 2)))

        return prompts()

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[UnevenPrompts]:
        """Rows of unequal length with padding on each side, the longest first or last, and rows of one length."""
        uneven, longest_last = _uneven_rows(inputs, 3), _uneven_rows(inputs, 2)[::-1]
        return [
            cls(samples=uneven, side="left", follow=2),
            cls(samples=longest_last, side="right", follow=2),
            cls(samples=longest_last, side="left", follow=1),
            cls(samples=_long_rows(inputs, 2), side="right", follow=1),
        ]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> UnevenPrompts | None:
        return cls(samples=samples, side="left", follow=1) if len(samples) > 1 else None


@dataclass(frozen=True, kw_only=True)
class ChunkedPrompts:
    """Rows of one length, and the sizes of the chunks in which they are fed."""

    samples: Rows
    chunks: list[int]

    def sizes(self, length: int) -> list[int]:
        """The chunks of rows that were cut to a length."""
        return cut_sizes(self.chunks, length)

    @property
    def conditions(self) -> frozenset[str]:
        later = self.chunks[1:]
        return _reached({"one token at a time": 1 in later, "several tokens at a time": any(n > 1 for n in later)})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[ChunkedPrompts]:
        @st.composite
        def prompts(draw: st.DrawFn) -> ChunkedPrompts:
            rows = draw(even_rows(inputs, 1, 3))
            if len(rows[0]) < 4 and draw(st.integers(0, 2)):
                rows = even(rows, 4)  # shorter ones have no room for a chunk of several tokens and others around it
            sizes = draw(st.sampled_from([[1], [2], [2, 1], [1, 2], [3, 1, 1], [1, 3], [1, 2, 1]]))
            while sum(sizes) >= len(rows[0]):  # what is left of the row comes first, and is at least one token
                sizes = sizes[:-1]
            return cls(samples=rows, chunks=[len(rows[0]) - sum(sizes), *sizes])

        return prompts()

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[ChunkedPrompts]:
        """One token at a time at the end or from the first on, several tokens at once, and both."""
        plans = [(1, (1, 1, 1)), (2, (3, 1)), (3, (1, 2)), (2, (4,))]
        chunked = [(_long_rows(inputs, count), sizes) for count, sizes in plans]
        return [cls(samples=rows, chunks=[len(rows[0]) - sum(sizes), *sizes]) for rows, sizes in chunked]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> ChunkedPrompts | None:
        rows = even(samples)
        return cls(samples=rows, chunks=[1] * len(rows[0])) if rows else None


def cut_sizes(sizes: Sequence[int], length: int) -> list[int]:
    """The sizes of chunks, after their rows were cut to a length."""
    cut = [min(size, max(0, length - sum(sizes[:index]))) for index, size in enumerate(sizes)]
    return [size for size in cut if size]


@dataclass(frozen=True, kw_only=True)
class StopTokens:
    """Prompts of unequal length, and which of the tokens that their rows generate are stop tokens.

    A stop ``(row, step)`` is the token that this row generates at this step; ``prompted`` makes the first id of the
    first prompt one of them, and ``padding`` the id of the padding.
    """

    samples: Rows
    stops: list[tuple[int, int]]
    prompted: bool
    padding: bool

    @property
    def conditions(self) -> frozenset[str]:
        steps = {step for _, step in self.stops}
        return _reached(
            {
                "never": not steps,
                "at once": steps == {0},
                "in the middle": bool(steps - {0}),
                "a stop token in a prompt": self.prompted,
            }
        )

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[StopTokens]:
        def stopping(rows: Rows) -> st.SearchStrategy[StopTokens]:
            stop = st.tuples(st.integers(0, len(rows) - 1), st.integers(0, STOP_STEPS - 2))
            some = st.lists(stop, min_size=1, max_size=2)
            stops, often = st.one_of(some, some, st.lists(stop, max_size=1)), st.integers(0, 2).map(bool)
            return st.builds(cls, samples=st.just(rows), stops=stops, prompted=often, padding=st.booleans())

        return inputs.rows(min_size=2, max_size=3).flatmap(stopping)

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[StopTokens]:
        """No stop, one in the middle, one at once, and rows that stop at different steps."""
        rows = _uneven_rows(inputs, 2)
        return [
            cls(samples=rows, stops=[], prompted=False, padding=True),
            cls(samples=rows, stops=[(0, 2)], prompted=False, padding=False),
            cls(samples=rows, stops=[(1, 0)], prompted=True, padding=False),
            cls(samples=rows[::-1], stops=[(0, 1), (1, 3)], prompted=True, padding=True),
        ]


@dataclass(frozen=True, kw_only=True)
class OverCapacity:
    """Rows of one length that are to fill a cache, and how many tokens come when it is full."""

    samples: Rows
    extra: int
    at_once: bool
    """Whether all tokens, those that fill it and those beyond, come in one call."""

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset({"a prompt that is too long" if self.at_once else "a token when it is full"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[OverCapacity]:
        return st.builds(cls, samples=even_rows(inputs, 1, 2), extra=st.integers(1, 3), at_once=st.booleans())

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[OverCapacity]:
        """One token more and several, after others or all at once."""
        plans = [(1, 1, False), (2, 3, False), (2, 1, True)]
        return [cls(samples=_long_rows(inputs, n), extra=extra, at_once=at_once) for n, extra, at_once in plans]


Operation = tuple[str, Any]


@dataclass(frozen=True, kw_only=True)
class CacheProgram:
    """Rows of one length, and what is done to them and to the cache that holds them, in this order.

    ``("feed", n)`` feeds the next ``n`` ids of every row, ``("reorder", [1, 0])``, ``("select", [0])`` and
    ``("repeat", 2)`` say which rows there are from then on, ``("crop", n)`` removes the last ``n`` tokens. An
    operation that the cache does not offer is left out; row numbers are then taken modulo the number of rows.
    """

    samples: Rows
    program: list[Operation]

    @property
    def conditions(self) -> frozenset[str]:
        names = {name for name, _ in self.program} - {"feed"}
        return frozenset({"several operations" if len(names) > 1 else "one operation"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[CacheProgram]:
        @st.composite
        def program(draw: st.DrawFn) -> CacheProgram:
            rows = draw(even_rows(inputs, 2, 4))
            every = draw(st.permutations(["reorder", "select", "crop", "repeat"]))
            names = [name for name in every if draw(st.integers(0, 3))] or every[:1]  # each three times of four
            count, drawn = len(rows), [("feed", len(rows[0]))]
            for name in names:
                operation, count = _operation(draw, name, count)
                drawn += [operation, ("feed", 1)] if draw(st.booleans()) else [operation]
            return cls(samples=rows, program=[*drawn, ("feed", 1)] if drawn[-1][0] != "feed" else drawn)

        return program()

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[CacheProgram]:
        """Each operation alone, and all of them one after the other."""
        rows = _long_rows(inputs, 3)
        turned = [*range(1, len(rows)), 0]  # of three rows not the same as its inverse
        single: list[Operation] = [("reorder", turned), ("select", turned[:-1]), ("repeat", 2), ("crop", 2)]
        every: list[Operation] = [*single[:2], ("feed", 2), ("crop", 1), ("repeat", 2), ("reorder", [1, 1, 0, 3])]
        programs = [*([operation] for operation in single), every]
        return [cls(samples=rows, program=[("feed", len(rows[0])), *program, ("feed", 1)]) for program in programs]


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
class SameBatchSize:
    """A batch, and another one of as many rows after it."""

    samples: Rows
    after: Rows

    @property
    def conditions(self) -> frozenset[str]:
        longer = len(self.after[0]) - len(self.samples[0])
        return _reached({"longer after shorter": longer > 0, "shorter after longer": longer < 0})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[SameBatchSize]:
        def batches(rows: Rows) -> st.SearchStrategy[SameBatchSize]:
            return st.builds(cls, samples=st.just(rows), after=even_rows(inputs, len(rows), len(rows)))

        return even_rows(inputs, 1, 2).flatmap(batches)

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[SameBatchSize]:
        """Longer rows after shorter ones, and shorter ones after longer ones."""
        rows = _long_rows(inputs, 4)
        half = (len(rows) + 1) // 2
        first, second = rows[:half], rows[-half:]
        return [cls(samples=even(first, 3), after=second), cls(samples=first[:1], after=even(second, 3)[:1])]


@dataclass(frozen=True, kw_only=True)
class SmallerBatch:
    """A batch, and one of fewer rows after it."""

    samples: Rows
    after: Rows

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset({"a last batch of one row" if len(self.after) == 1 else "a few rows less"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[SmallerBatch]:
        def batches(rows: Rows) -> st.SearchStrategy[SmallerBatch]:
            return st.builds(cls, samples=st.just(rows), after=even_rows(inputs, 1, len(rows) - 1))

        return even_rows(inputs, 2, 4).flatmap(batches)

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[SmallerBatch]:
        """One row after two and after three, and two rows after three, which are shorter or longer."""
        rows = _long_rows(inputs, 4)
        plans = [(rows[:2], even(rows[-1:], 3)), (even(rows[:3], 3), rows[-2:]), (rows[:3], rows[-1:])]
        return [cls(samples=first, after=after) for first, after in plans if len(after) < len(first)]


@dataclass(frozen=True, kw_only=True)
class OversizedBatch:
    """A batch of more rows than its cache is made for."""

    samples: Rows
    cache_rows: int

    @property
    def conditions(self) -> frozenset[str]:
        rows = len(self.samples)
        return _reached({"one row more": rows == self.cache_rows + 1, "rows times choices": not rows % self.cache_rows})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[OversizedBatch]:
        def batch(sizes: tuple[int, int]) -> st.SearchStrategy[OversizedBatch]:
            cache_rows, rows = sizes
            return st.builds(cls, samples=even_rows(inputs, rows, rows), cache_rows=st.just(cache_rows))

        return st.sampled_from([(1, 2), (2, 3), (1, 3), (2, 4), (2, 6)]).flatmap(batch)

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[OversizedBatch]:
        """Two rows for one, three for two, and four for two."""
        batches = [(_long_rows(inputs, count), room) for count, room in ((2, 1), (3, 2), (4, 2))]
        return [cls(samples=rows, cache_rows=room) for rows, room in batches if len(rows) > room]


@dataclass(frozen=True, kw_only=True)
class PaddedBatch:
    """Rows of one length, of which some may be equal, and how many filler rows are added to fill a batch."""

    samples: Rows
    fillers: int

    @property
    def conditions(self) -> frozenset[str]:
        alone = len(self.samples) == 1
        return _reached(
            {
                "no row added": not self.fillers,
                "all but one row added": alone and self.fillers > 0,
                "equal rows": any(self.samples.count(row) > 1 for row in self.samples),
            }
        )

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[PaddedBatch]:
        # Often some; but with none `results[:-fillers]` is empty.
        fillers = st.one_of(st.integers(0, 3), st.integers(1, 3))
        rows = even_rows(inputs, 1, 3)
        repeated = rows.map(lambda few: [*few, few[0]])
        return st.builds(cls, samples=st.one_of(rows, rows, repeated), fillers=fillers)

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[PaddedBatch]:
        """Rows to which none is added, one row with others, several rows with one more, and equal rows."""
        made = [cls(samples=_long_rows(inputs, n), fillers=added) for n, added in ((2, 0), (1, 2), (3, 1))]
        first, *others = _long_rows(inputs, 2)
        return [*made, cls(samples=[first, *others, list(first)], fillers=1)]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> PaddedBatch | None:
        return cls(samples=even(samples), fillers=0) if samples else None


@dataclass(frozen=True, kw_only=True)
class LargeBatch:
    """Rows of one length, and the number of rows of a batch that repeats them."""

    samples: Rows
    rows: int

    @property
    def conditions(self) -> frozenset[str]:
        return _reached({"many rows": self.rows > _MANY // 2})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[LargeBatch]:
        sizes = st.sampled_from([_MANY // 2, _MANY - 1, _MANY])
        return st.builds(cls, samples=even_rows(inputs, 1, 2), rows=sizes)

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[LargeBatch]:
        """Many copies of two rows."""
        return [cls(samples=_long_rows(inputs, 2), rows=_MANY)]

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> LargeBatch | None:
        return cls(samples=even(samples[:2]), rows=_MANY) if samples else None


_MANY = 33
