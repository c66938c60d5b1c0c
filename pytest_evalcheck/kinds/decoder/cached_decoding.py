"""Rows that are decoded with one cache, piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.kinds.decoder.calls import Calls, Ids
from pytest_evalcheck.strategies.samples import Side, padded


class Conversation:
    """A cache, and what its mask has to say. After an error it gives that error again and again."""

    def __init__(self, calls: Calls, rows: int) -> None:
        self._calls = calls
        self._masks: list[list[int]] = []
        self.cache = calls.make_cache(rows)
        self.error: Raised | None = self.cache if isinstance(self.cache, Raised) else None

    def feed(self, ids: Ids, masks: Ids | None = None) -> Any:
        """The logits of new ids ``[rows, n, vocab]``, or the error. Without masks all of them are tokens."""
        if self.error:
            return self.error
        new = [list(row) for row in masks or [[1] * len(row) for row in ids]]
        held = self._masks or [[] for _ in ids]
        whole = [[*before, *row] for before, row in zip(held, new, strict=True)]
        positions = [_positions(row)[len(before) :] for before, row in zip(held, whole, strict=True)]
        logits, self.cache = self._calls.step(self.cache, ids, whole, positions)
        self._masks, self.error = whole, logits if isinstance(logits, Raised) else None
        return logits

    def feed_padded(self, rows: Ids, side: Side) -> Any:
        """For each row of unequal length the logits of its tokens ``[n, vocab]``, or the error."""
        width, blank = max(map(len, rows)), self._calls.record.pad_token
        masks = [padded([1] * len(row), side, width, 0) for row in rows]
        logits = self.feed([padded(row, side, width, blank) for row in rows], masks)
        if isinstance(logits, Raised):
            return logits
        starts = [width - len(row) if side == "left" else 0 for row in rows]
        return [own[start : start + len(row)] for own, start, row in zip(logits, starts, rows, strict=True)]

    def feed_pieces(self, ids: Ids, sizes: Sequence[int]) -> Any:
        """For each row the logits of ids that come in pieces of these sizes ``[n, vocab]``, or the error."""
        import torch

        found, start = [], 0
        for size in sizes:
            found.append(self.feed([row[start : start + size] for row in ids]))
            start += size
        return self.error or list(torch.cat(found, dim=1))

    def operate(self, name: str, *arguments: Any) -> None:
        """Apply an operation that the cache offers, and what it does to rows."""
        if self.error:
            return
        after = self._calls.operate(name, self.cache, *arguments)
        if isinstance(after, Raised):
            self.error = after
            return
        self.cache, self._masks = after, ON_ROWS[name](self._masks, *arguments)


def _positions(mask: Sequence[int]) -> list[int]:
    return [max(0, sum(mask[: place + 1]) - 1) * mask[place] for place in range(len(mask))]


ON_ROWS: dict[str, Callable[..., list[list[int]]]] = {
    "reset": lambda _: [],
    "tear_down": lambda _: [],
    "reorder": lambda rows, order: [rows[i] for i in order],
    "select": lambda rows, kept: [rows[i] for i in kept],
    "repeat": lambda rows, times: [row for row in rows for _ in range(times)],
    "crop": lambda rows, length: [row[:length] for row in rows],
}
"""By operation of a cache, the same on lists that have one entry a token."""
