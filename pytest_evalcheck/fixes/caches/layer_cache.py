"""The memory of one layer: made once for the largest batch, shown as far as the present batch fills it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pytest_evalcheck.fixes.caches.batch_padding import CacheError, require_rows, require_size

_SLACK = 4  # A sliding layer moves its window once every quarter of a window, for a quarter more memory.


class LayerCache:
    """Keys and values of up to ``capacity`` rows and ``length`` positions.

    `append` takes (rows, heads, new, dim) and gives views (rows, heads, seen, dim) of what the batch has stored so
    far: no row and no position of anything else, hence nothing to zero in between and nothing to compute for rows
    that are not there. With ``window`` only what the next position may look at is kept, in memory for a window and
    a quarter.

    The first append after a `reset` says how many rows the batch has. `CacheError` for more rows than the capacity,
    for more positions than the length, and for another number of rows, dtype or device than before.
    """

    def __init__(self, capacity: int, length: int, dtype: torch.dtype | None = None, window: int | None = None):
        self.capacity = require_size(capacity, "capacity")
        self.length = require_size(length, "length")
        self.kept = None if window is None else require_size(window, "window") - 1
        self.dtype = self._asked = dtype
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self.reset()

    def reset(self) -> None:
        """Forget the batch. Its numbers stay in memory, where no later batch sees them."""
        self.rows = self.seen = self._end = 0

    def release(self) -> None:
        """Forget the batch and give the memory back; a later append takes it anew."""
        self.reset()
        self.keys = self.values = None
        self.dtype = self._asked

    @property
    def nbytes(self) -> int:
        """How many bytes the keys and values take."""
        return sum(each.nbytes for each in (self.keys, self.values) if each is not None)

    @property
    def before(self) -> int:
        """How many earlier positions the next append shows beside its own."""
        return self.seen if self.kept is None else min(self.seen, self.kept)

    def allocate(self, heads: int, key_dim: int, value_dim: int, dtype: torch.dtype, device: torch.device) -> None:
        """Take the memory. What was never written is never shown, so it is not zeroed either."""
        positions = self.length
        if self.kept is not None:
            positions = min(self.length, self.kept + 1 + max(1, self.kept // _SLACK))
        # A tensor made in inference mode could not be written outside of it, and a cache outlives both.
        with torch.inference_mode(False):
            self.keys = torch.empty((self.capacity, heads, positions, key_dim), dtype=dtype, device=device)
            self.values = torch.empty((self.capacity, heads, positions, value_dim), dtype=dtype, device=device)
        self.dtype = dtype

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store new positions of every row and show all that the new positions may look at."""
        self._require(keys)
        if self.keys is None or self.values is None:
            kind = self.dtype or keys.dtype
            self.allocate(keys.shape[1], keys.shape[-1], values.shape[-1], kind, keys.device)
        assert self.keys is not None
        assert self.values is not None
        before, new, rows = self.before, keys.shape[-2], keys.shape[0]
        self.rows, self.seen = rows, self.seen + new
        keys, values = keys.detach(), values.detach()
        if self._end + new > self.keys.shape[-2]:
            if before + new > self.keys.shape[-2]:
                return self._too_long(keys, values, before)
            self._to_front(before)
        self._end += new
        for memory, given in ((self.keys, keys), (self.values, values)):
            memory[:rows, :, self._end - new : self._end].copy_(given)
        return self._shown(self.keys, before + new), self._shown(self.values, before + new)

    def visible(self) -> tuple[Tensor, Tensor] | None:
        """Show what is stored of the batch; None before anything was."""
        if self.keys is None or self.values is None:
            return None
        return self._shown(self.keys, self.before), self._shown(self.values, self.before)

    def select(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order, each as often as it is named; no new memory where rows only move down."""
        require_rows(len(rows), self.capacity)
        wrong = [row for row in rows if not 0 <= row < self.rows]
        if wrong:
            raise CacheError(f"rows: expected some of the {self.rows} in the cache, got {wrong[0]}")
        for memory in (self.keys, self.values):
            if memory is not None:
                self._moved(memory, rows)
        self.rows = len(rows)

    def crop(self, positions: int) -> None:
        """Forget the last positions of every row; `CacheError` where a window has moved past what remains."""
        if not 0 <= positions <= self.seen:
            raise CacheError(f"positions: expected 0 to {self.seen}, as many as the cache holds, got {positions}")
        seen, end = self.seen - positions, self._end - positions
        if end < (seen if self.kept is None else min(seen, self.kept)):
            raise CacheError(f"positions: the window has moved on, so that {positions} cannot be taken back")
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
            raise CacheError(f"keys: expected {self.dtype}, the dtype of the cache, got {keys.dtype}; make them one")
        if self.keys is not None and keys.device != self.keys.device:
            raise CacheError(f"keys: expected them on {self.keys.device}, where the cache is, got {keys.device}")

    def _shown(self, memory: Tensor, positions: int) -> Tensor:
        return memory[: self.rows, :, self._end - positions : self._end]

    def _to_front(self, before: int) -> None:
        for memory in (self.keys, self.values):
            assert memory is not None
            kept = self._shown(memory, before)
            # The two may overlap, and then a plain copy reads what it has written.
            memory[: self.rows, :, :before].copy_(kept if self._end - before >= before else kept.clone())
        self._end = before

    def _too_long(self, keys: Tensor, values: Tensor, before: int) -> tuple[Tensor, Tensor]:
        assert self.keys is not None
        assert self.values is not None
        assert self.kept is not None
        whole = []
        for memory, given in ((self.keys, keys), (self.values, values)):
            shown = torch.cat([self._shown(memory, before), given], dim=-2) if before else given
            memory[: self.rows, :, : self.kept].copy_(shown[..., shown.shape[-2] - self.kept :, :])
            whole.append(shown)
        self._end = self.kept
        return whole[0], whole[1]

    def _moved(self, memory: Tensor, rows: Sequence[int]) -> None:
        here = slice(self._end - self.before, self._end)
        if all(row == place or row >= len(rows) for place, row in enumerate(rows)):
            for place, row in enumerate(rows):
                if row != place:
                    memory[place, :, here].copy_(memory[row, :, here])
            return
        chosen = torch.tensor(list(rows), device=memory.device)
        memory[: len(rows), :, here] = memory[:, :, here].index_select(0, chosen)
