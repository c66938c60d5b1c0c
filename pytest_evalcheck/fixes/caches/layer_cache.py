"""The keys and values of a layer: memory for the largest batch, of which each batch uses a part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

from pytest_evalcheck.fixes.caches.batch_padding import CacheError, require_rows, require_size

Self = TypeVar("Self", bound="LayerCaches")
Pair = tuple[Tensor, Tensor]

_SLACK = 4  # A sliding layer moves its window once every quarter of a window, for a quarter more memory.


class LayerCache:
    """Keys and values of up to ``capacity`` rows and ``length`` positions.

    `append` takes (rows, heads, new, dim) and returns views (rows, heads, seen, dim) of what the batch has stored:
    no other rows and positions, so nothing has to be zeroed between batches and nothing is computed for rows that
    do not exist. With ``window`` only the positions are kept that the next one attends to, in memory for a window
    and a quarter.

    The first `append` after a `reset` sets the number of rows of the batch. `CacheError` for more rows than the
    capacity, for more positions than the length, and for another number of rows, dtype or device than before.
    """

    def __init__(self, capacity: int, length: int, dtype: torch.dtype | None = None, window: int | None = None):
        self.capacity = require_size(capacity, "capacity")
        self.length = require_size(length, "length")
        self.kept = None if window is None else require_size(window, "window") - 1
        self.dtype = self._initial_dtype = dtype
        self.memory: list[Tensor] = []
        self.reset()

    def reset(self) -> None:
        """Forget the batch. Its numbers stay in memory, but no later batch reads them."""
        self.rows = self.seen = self._end = 0

    def release(self) -> None:
        """Forget the batch and free the memory; a later append allocates it again."""
        self.reset()
        self.memory, self.dtype = [], self._initial_dtype

    @property
    def keys(self) -> Tensor | None:
        """The memory of the keys, (capacity, heads, positions, dim); None where it is not allocated."""
        return self.memory[0] if self.memory else None

    @property
    def nbytes(self) -> int:
        """The size of keys and values in bytes."""
        return sum(each.nbytes for each in self.memory)

    @property
    def earlier_positions(self) -> int:
        """The number of earlier positions that the next append returns in addition to its own."""
        return self.seen if self.kept is None else min(self.seen, self.kept)

    def allocate(self, heads: int, key_dim: int, value_dim: int, dtype: torch.dtype, device: torch.device) -> None:
        """Allocate the memory. It is not zeroed, because only positions that were written are read."""
        positions = self.length
        if self.kept is not None:
            positions = min(self.length, self.kept + 1 + max(1, self.kept // _SLACK))
        # A tensor made in inference mode could not be written outside of it, and a cache is used in both.
        with torch.inference_mode(False):
            self.memory = [
                torch.empty((self.capacity, heads, positions, dim), dtype=dtype, device=device)
                for dim in (key_dim, value_dim)
            ]
        self.dtype = dtype

    def append(self, keys: Tensor, values: Tensor) -> Pair:
        """Store new positions of every row and return all positions that the new ones attend to."""
        self._require(keys)
        if not self.memory:
            self.allocate(keys.shape[1], keys.shape[-1], values.shape[-1], self.dtype or keys.dtype, keys.device)
        before, new, room = self.earlier_positions, keys.shape[-2], self.memory[0].shape[-2]
        self.rows, self.seen = keys.shape[0], self.seen + new
        given = keys.detach(), values.detach()
        if before + new > room:
            return self._append_long(given, before)
        if self._end + new > room:
            self._move_to_front(before)
        self._end += new
        for memory, added in zip(self.memory, given, strict=True):
            memory[: self.rows, :, self._end - new : self._end].copy_(added)
        return self._last(before + new)

    def visible(self) -> Pair | None:
        """Return what is stored of the batch; None before the first append."""
        return self._last(self.earlier_positions) if self.memory else None

    def select(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order, each as often as it is named; no new memory where rows only move down."""
        require_rows(len(rows), self.capacity)
        wrong = [row for row in rows if not 0 <= row < self.rows]
        if wrong:
            raise CacheError(f"rows: expected some of the {self.rows} in the cache, got {wrong[0]}")
        used = slice(self._end - self.earlier_positions, self._end)
        in_place = all(row == target or row >= len(rows) for target, row in enumerate(rows))
        for memory in self.memory:
            if in_place:
                for target, row in enumerate(rows):
                    if row != target:
                        memory[target, :, used].copy_(memory[row, :, used])
            else:
                chosen = torch.tensor(list(rows), device=memory.device)
                memory[: len(rows), :, used] = memory[:, :, used].index_select(0, chosen)
        self.rows = len(rows)

    def crop(self, positions: int) -> None:
        """Forget the last positions of every row; `CacheError` where a window has moved past the remaining ones."""
        if not 0 <= positions <= self.seen:
            raise CacheError(f"positions: expected 0 to {self.seen}, as many as the cache holds, got {positions}")
        seen, end = self.seen - positions, self._end - positions
        if end < (seen if self.kept is None else min(seen, self.kept)):
            raise CacheError(f"positions: the window has moved on, so {positions} cannot be removed")
        self.seen, self._end = seen, end

    def _require(self, keys: Tensor) -> None:
        require_rows(keys.shape[0], self.capacity)
        if self.seen and keys.shape[0] != self.rows:
            raise CacheError(
                f"batch: expected {self.rows} rows, as the cache holds for the present batch, got {keys.shape[0]}; "
                "reset the cache before another batch"
            )
        if self.seen + keys.shape[-2] > self.length:
            raise CacheError(
                f"cache: it has {self.length} positions, {self.seen} of them filled: no room for {keys.shape[-2]} more"
            )
        if self.dtype is not None and keys.dtype != self.dtype:
            raise CacheError(f"keys: expected {self.dtype}, the dtype of the cache, got {keys.dtype}; convert them")
        if self.memory and keys.device != self.memory[0].device:
            raise CacheError(f"keys: expected them on {self.memory[0].device}, where the cache is, got {keys.device}")

    def _last(self, positions: int) -> Pair:
        keys, values = (memory[: self.rows, :, self._end - positions : self._end] for memory in self.memory)
        return keys, values

    def _move_to_front(self, before: int) -> None:
        for memory, kept in zip(self.memory, self._last(before), strict=True):
            # Where the two overlap, a plain copy would read what it has written.
            memory[: self.rows, :, :before].copy_(kept if self._end - before >= before else kept.clone())
        self._end = before

    def _append_long(self, given: Pair, before: int) -> Pair:
        """Append more positions than a window has memory for: return all, store the last ones."""
        assert self.kept is not None
        keys, values = given
        if before:
            keys, values = (torch.cat(pair, dim=-2) for pair in zip(self._last(before), given, strict=True))
        for memory, whole in zip(self.memory, (keys, values), strict=True):
            memory[: self.rows, :, : self.kept].copy_(whole[..., whole.shape[-2] - self.kept :, :])
        self._end = self.kept
        return keys, values


class LayerCaches:
    """The caches of all layers of a model."""

    capacity: int

    def stores(self) -> list[LayerCache]:
        """Return the cache of each layer that has one."""
        raise NotImplementedError

    def start_batch(self: Self, rows: int) -> Self:
        """Forget the previous batch, and return the cache for one of ``rows`` rows; `CacheError` if it has no room."""
        require_rows(rows, self.capacity)
        for store in self.stores():
            store.reset()
        return self

    def select(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order: those that are continued."""
        for store in self.stores():
            store.select(rows)

    def release(self) -> None:
        """Free the memory; the next batch allocates it again."""
        for store in self.stores():
            store.release()

    @property
    def nbytes(self) -> int:
        """The size of all layers in bytes."""
        return sum(store.nbytes for store in self.stores())
