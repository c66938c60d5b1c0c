"""Prompts and what is done with one batch of them: pieces, padding, stops, operations on a cache.

Rows are evened by repeating their own ids where padding is not the point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Rows
from pytest_evalcheck.strategies.samples import SampleStrategy, Side

SIDES: tuple[Side, ...] = ("left", "right")


def even(rows: Sequence[Sequence[int]], length: int) -> Rows:
    """Rows of one length, each made of its own ids again and again."""
    return [[row[place % len(row)] for place in range(length)] for row in rows]


def even_rows(inputs: SampleStrategy, fewest: int, most: int, length: st.SearchStrategy[int] | None = None) -> Any:
    """Rows of one length, as plain data: that of the longest, or a drawn one."""

    @st.composite
    def rows(draw: st.DrawFn) -> Rows:
        drawn = draw(inputs.rows(min_size=fewest, max_size=most))
        return even(drawn, draw(length) if length else max(map(len, drawn)))

    return rows()


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """Prompts of unequal length."""

    samples: Rows

    @property
    def regimes(self) -> frozenset[str]:
        lengths = [len(row) for row in self.samples]
        reached = {"one row"} if len(lengths) == 1 else set()
        if len(set(lengths)) > 1:
            reached.add("rows of unequal length")
        return frozenset(reached | ({"a prompt of one token"} if 1 in lengths else set()))

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Prompts]:
        return st.builds(cls, samples=inputs.rows(min_size=1, max_size=3))

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Prompts | None:
        del inputs
        return cls(samples=samples) if samples else None


@dataclass(frozen=True, kw_only=True)
class Beside:
    """Prompts of unequal length in one batch, with padding on a side, and ids that follow in each row."""

    samples: Rows
    side: Side
    follow: int

    @property
    def regimes(self) -> frozenset[str]:
        lengths = {len(row) for row in self.samples}
        reached = {"rows of unequal length" if len(lengths) > 1 else "rows of one length"}
        return frozenset(reached | ({"a prompt of one token"} if 1 in lengths else set()))

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Beside]:
        @st.composite
        def beside(draw: st.DrawFn) -> Beside:
            rows = draw(inputs.rows(min_size=2, max_size=3))
            if len(set(map(len, rows))) == 1 and draw(st.integers(0, 2)):  # of one length is tried too, but not often
                rows[0] = rows[0][:1] if len(rows[0]) > 1 else rows[0] * 3
            return cls(samples=rows, side=draw(st.sampled_from(SIDES)), follow=draw(st.integers(1, 2)))

        return beside()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Beside | None:
        del inputs
        return cls(samples=samples, side="left", follow=1) if len(samples) > 1 else None


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """Rows of one length, and the sizes of the pieces in which they are fed."""

    samples: Rows
    pieces: list[int]

    def sizes(self, length: int) -> list[int]:
        """The pieces of rows that were cut to a length."""
        cut = [min(size, max(0, length - sum(self.pieces[:place]))) for place, size in enumerate(self.pieces)]
        return [size for size in cut if size]

    @property
    def regimes(self) -> frozenset[str]:
        later = self.pieces[1:]
        reached = {"one token at a time"} if 1 in later else set()
        return frozenset(reached | ({"several tokens at a time"} if any(size > 1 for size in later) else set()))

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Pieces]:
        @st.composite
        def pieces(draw: st.DrawFn) -> Pieces:
            rows = draw(even_rows(inputs, 1, 3))
            if len(rows[0]) < 4 and draw(st.integers(0, 2)):
                rows = even(rows, 4)  # shorter ones have no room for a piece of several tokens and others around it
            sizes = draw(st.sampled_from([[1], [2], [2, 1], [1, 2], [3, 1, 1], [1, 3], [1, 2, 1]]))
            while sum(sizes) >= len(rows[0]):  # what is left of the row comes first, and is at least one token
                sizes = sizes[:-1]
            return cls(samples=rows, pieces=[len(rows[0]) - sum(sizes), *sizes])

        return pieces()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Pieces | None:
        del inputs
        rows = even(samples, max(map(len, samples), default=0))
        return cls(samples=rows, pieces=[1] * len(rows[0])) if rows else None


@dataclass(frozen=True, kw_only=True)
class Ending:
    """Prompts of unequal length, and which of the tokens that their rows generate are stop tokens.

    A stop ``(row, step)`` is the token that this row generates at this step; ``prompted`` makes the first id of the
    first prompt one of them, and ``padding`` the id of the padding.
    """

    samples: Rows
    stops: list[tuple[int, int]]
    prompted: bool
    padding: bool

    @property
    def regimes(self) -> frozenset[str]:
        steps = {step for _, step in self.stops}
        reached = {"never"} if not self.stops else {"at once"} if steps == {0} else {"in the middle"}
        if self.prompted:
            reached.add("a stop token in a prompt")
        return frozenset(reached)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Ending]:
        @st.composite
        def ending(draw: st.DrawFn) -> Ending:
            rows = draw(inputs.rows(min_size=2, max_size=3))
            stop = st.tuples(st.integers(0, len(rows) - 1), st.integers(0, STEPS - 2))
            some = st.lists(stop, min_size=1, max_size=2)
            stops = draw(st.one_of(some, some, st.lists(stop, max_size=1)))
            return cls(samples=rows, stops=stops, prompted=draw(st.integers(0, 2)) > 0, padding=draw(st.booleans()))

        return ending()


STEPS = 5
"""How many tokens a row may generate before it is cut off."""


@dataclass(frozen=True, kw_only=True)
class Overrun:
    """Rows of one length that are to fill a cache, and how many tokens come when it is full."""

    samples: Rows
    over: int
    at_once: bool
    """Whether all tokens, those that fill it and those beyond, come in one piece."""

    @property
    def regimes(self) -> frozenset[str]:
        return frozenset({"a prompt that is too long" if self.at_once else "a token when it is full"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Overrun]:
        rows = even_rows(inputs, 1, 2)
        return st.builds(cls, samples=rows, over=st.integers(1, 3), at_once=st.booleans())


Operation = tuple[str, Any]


@dataclass(frozen=True, kw_only=True)
class Program:
    """Rows of one length, and what is done to them and to the cache that holds them, in this order.

    ``("feed", n)`` feeds the next ``n`` ids of every row, ``("reorder", [1, 0])``, ``("select", [0])`` and
    ``("repeat", 2)`` say which rows there are from then on, ``("crop", n)`` takes the last ``n`` tokens away. An
    operation that the cache does not offer is left out; row numbers are then taken modulo the number of rows.
    """

    samples: Rows
    program: list[Operation]

    @property
    def regimes(self) -> frozenset[str]:
        names = {name for name, _ in self.program} - {"feed"}
        return frozenset({"several operations" if len(names) > 1 else "one operation"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Program]:
        @st.composite
        def program(draw: st.DrawFn) -> Program:
            rows = draw(even_rows(inputs, 2, 4))
            every = draw(st.permutations(["reorder", "select", "crop", "repeat"]))
            names = [name for name in every if draw(st.integers(0, 3))] or every[:1]  # each three times of four
            count, drawn = len(rows), [("feed", len(rows[0]))]
            for chosen in names:
                operation, count = _operation(draw, chosen, count)
                drawn += [operation, ("feed", 1)] if draw(st.booleans()) else [operation]
            return cls(samples=rows, program=[*drawn, ("feed", 1)] if drawn[-1][0] != "feed" else drawn)

        return program()


def _operation(draw: st.DrawFn, name: str, count: int) -> tuple[Operation, int]:
    row = st.integers(0, count - 1)
    if name == "reorder":
        return (name, draw(st.one_of(st.permutations(range(count)).map(list), _many(row, count)))), count
    if name == "select":
        left_out = draw(st.lists(row, min_size=min(1, count - 1), max_size=max(0, count - 2) or count - 1, unique=True))
        return (name, [place for place in range(count) if place not in left_out]), count - len(left_out)
    if name == "repeat":
        return (name, 2), 2 * count
    return (name, draw(st.integers(1, 3))), count


def _many(row: st.SearchStrategy[int], count: int) -> st.SearchStrategy[list[int]]:
    return st.lists(row, min_size=count, max_size=count)
