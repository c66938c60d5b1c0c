"""The fast guard of a plain dict of plain tensors, the usual batch: a few microseconds, and no values are read."""

from __future__ import annotations

import sys
from operator import attrgetter, is_
from typing import Any

from pytest_evalcheck.guard.traversal import kind_of

_attributes = attrgetter("__dict__")


class FastRecord:
    """Keys and values of a dict, and the address, version and layout of each tensor."""

    __slots__ = ("_batch", "_state", "_storage_sizes", "_tensors", "keys", "values")

    def __init__(self, batch: dict[Any, Any], tensors: list[Any]) -> None:
        self._batch, self._tensors, self.keys, self.values = batch, tensors, (*batch,), (*batch.values(),)
        self._state = self._read()
        # Read once: a storage of another size has another address.
        self._storage_sizes = [tensor.untyped_storage().nbytes() for tensor in tensors]

    @classmethod
    def take(cls, value: Any) -> FastRecord | None:
        """Record a dict; None for another structure, or a tensor without a version, storage or memory of its own."""
        if type(value) is not dict or "torch" not in sys.modules:
            return None
        plain = sys.modules["torch"].Tensor
        tensors = [held for held in value.values() if type(held) is plain]
        if any(type(held) is not plain and kind_of(held) != "plain" for held in value.values()):
            return None
        try:
            record = cls(value, tensors)
        except (NotImplementedError, RuntimeError):
            return None
        return record if all(state[0] for state in record._state) and not any(map(_attributes, tensors)) else None

    def _read(self) -> list[tuple[Any, ...]]:
        return [(x.data_ptr(), x._version, x.shape, x.stride(), x.dtype, x.requires_grad) for x in self._tensors]

    def unchanged(self) -> bool:
        """Return whether everything is as it was."""
        batch = self._batch
        return (
            len(batch) == len(self.keys)
            and all(map(is_, batch, self.keys))
            and all(map(is_, batch.values(), self.values))
            and not any(map(_attributes, self._tensors))
            and self._state == self._read()
        )

    def recorded(self) -> dict[int, tuple[int, int, dict[str, Any]]]:
        """The address, version and layout that were recorded of each tensor, by its id."""
        names = ("shape", "stride", "dtype", "requires_grad", "bytes of its storage")
        return {
            id(tensor): (address, version, dict(zip(names, (*layout, size), strict=True)))
            for tensor, size, (address, version, *layout) in zip(
                self._tensors, self._storage_sizes, self._state, strict=True
            )
        }
