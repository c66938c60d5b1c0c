"""A collate that fills the same memory for batch after batch, as loaders do that decode into fixed buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from pytest_evalcheck.kinds.common.tensors import each_tensor, overwrite


class ReusedBuffers:
    """A collate whose batches are in a number of buffers, which are filled in turn."""

    def __init__(self, collate: Callable[[Sequence[Any]], Any], buffers: int) -> None:
        self._collate, self._buffers = collate, buffers
        self._memory: dict[tuple[int, int, Any], Any] = {}
        """Flat tensors by the number of the buffer, the place of a tensor in its batch, and its dtype."""
        self.batches = 0
        """Number of batches with tensors that it has given."""

    def __call__(self, rows: Sequence[Any]) -> Any:
        batch, places = self._collate(rows), count()
        moved = each_tensor(batch, lambda tensor: self._placed(tensor, next(places)))
        self.batches += next(places) > 0
        return moved

    @property
    def reused(self) -> bool:
        """True if some memory was filled more than once."""
        return self.batches > self._buffers

    def overwrite(self) -> None:
        """Write other values into all buffers, as the next reader of the data does."""
        overwrite(list(self._memory.values()))

    def _placed(self, tensor: Any, place: int) -> Any:
        key = (self.batches % self._buffers, place, tensor.dtype)
        size = tensor.numel()
        memory = self._memory.get(key)
        if memory is None or memory.numel() < size:
            if memory is not None:
                overwrite(memory)  # who still has it sees that it was used again
            memory = self._memory[key] = tensor.new_empty(2 * size)
        flat = memory[:size]
        flat.copy_(tensor.reshape(-1))
        return flat.view(tensor.shape)
