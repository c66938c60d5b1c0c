"""Prompts that are decoded in each of the ways that a record describes, and what they get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.kinds.common.case import Rows
from pytest_evalcheck.kinds.decoder.cases import SIDES, UnevenPrompts, even
from pytest_evalcheck.kinds.decoder.subject import NEW_TOKENS, DecoderUnderTest, Ids, all_rows_or_none
from pytest_evalcheck.strategies.samples import SampleStrategy, Side


@dataclass(frozen=True, kw_only=True)
class CalledPrompts:
    """Prompts of unequal length, the sizes of the chunks of ids that follow, and the convention that comes first."""

    samples: Rows
    side: Side
    chunks: list[int]
    first: int

    @property
    def conditions(self) -> frozenset[str]:
        sizes = {1: "one token at a time", 2: "several tokens at a time"}
        lengths = "rows of one length" if len(set(map(len, self.samples))) <= 1 else "rows of unequal length"
        return frozenset([lengths, *(sizes[min(size, 2)] for size in self.chunks)])

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[CalledPrompts]:
        def called(prompts: UnevenPrompts, chunks: list[int], first: int) -> CalledPrompts:
            return cls(samples=prompts.samples, side=prompts.side, chunks=chunks, first=first)

        plans = st.sampled_from([[1], [1, 1], [2], [2, 1], [1, 2]])
        return st.builds(called, UnevenPrompts.strategy(inputs), plans, st.integers(0, 7))

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[CalledPrompts]:
        """Rows of unequal length with padding on the left and on the right, and rows of one length."""
        uneven, last_longest, _, same = (each.samples for each in UnevenPrompts.canonical(inputs))
        plans = [(uneven, SIDES[0], [1, 2]), (last_longest, SIDES[1], [1]), (same, SIDES[0], [2, 1])]
        return [
            cls(samples=rows, side=side, chunks=chunks, first=first) for first, (rows, side, chunks) in enumerate(plans)
        ]


@dataclass(frozen=True)
class Decoding:
    """One way to decode rows with a new cache, and the same ids without one."""

    rows: Ids
    side: Side
    chunks: Sequence[int]

    @property
    def follow(self) -> list[list[int]]:
        """The ids that follow each row: its own again."""
        return even(self.rows, sum(self.chunks))

    def cached(self, decoder: DecoderUnderTest) -> Any:
        """For each row the logits of its ids and of those that follow, or the error."""
        import torch

        sequence, start = decoder.start(len(self.rows)), 0
        logits = sequence.decode_padded(self.rows, self.side)
        for size in self.chunks:
            later = sequence.decode_step([row[start : start + size] for row in self.follow])
            if isinstance(later, Raised) or isinstance(logits, Raised):
                break
            logits, start = [torch.cat(pair) for pair in zip(logits, later, strict=True)], start + size
        return sequence.error or logits

    def uncached(self, decoder: DecoderUnderTest) -> Any:
        """The same from the whole rows, each alone; or the error."""
        found = [decoder.decode_uncached([[*row, *after]]) for row, after in zip(self.rows, self.follow, strict=True)]
        error = next((each for each in found if isinstance(each, Raised)), None)
        return error or [each[0] for each in found]


def decoding(decoder: DecoderUnderTest, case: CalledPrompts, rows: Ids) -> Decoding:
    """How these rows are decoded by what the decoder now allows: without padding where it takes none."""
    sides = () if decoder.refuses("padding") else decoder.record.sides
    sizes = [1] * sum(case.chunks) if decoder.refuses("chunks") else case.chunks
    side: Side = case.side if case.side in sides else next(iter(sides), "left")
    return Decoding(rows if sides else even(rows), side, decoder.within_prefill(sizes))


def tokens(decoder: DecoderUnderTest, rows: Ids, stop: tuple[int, ...] = ()) -> Any:
    """What is generated for rows with a new cache, or the error; None where a row is missing.

    A row ends before its stop token. What is generated behind one stays.
    """
    sequence = decoder.start(len(rows))
    found = sequence.error or all_rows_or_none(decoder.generate(rows, sequence.cache, NEW_TOKENS, stop), rows)
    if isinstance(found, Raised) or found is None:
        return found
    return [row[:-1] if row and row[-1] in stop else row for row in found]
