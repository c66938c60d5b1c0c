"""The fast guard of the usual batch, a plain dict of plain tensors, in a few microseconds."""

from __future__ import annotations

import sys
from operator import attrgetter, is_
from typing import Any

from pytest_evalcheck.walk import role_of

_inside = attrgetter("__dict__")


class Quick:
    """Which tensors were under which keys, and what PyTorch kept of each: its version, place and layout."""

    __slots__ = ("_batch", "_bytes", "_now", "_tensors", "held", "keys")

    def __init__(self, batch: dict[Any, Any], tensors: list[Any], now: list[tuple[Any, ...]], sizes: list[int]) -> None:
        self._batch, self._tensors, self._now, self._bytes = batch, tensors, now, sizes
        self.keys, self.held = (*batch,), (*batch.values(),)

    @staticmethod
    def of(value: Any) -> Quick | None:
        """None for any other nest, and where a tensor keeps no version, hides its storage, or has none."""
        if type(value) is not dict or "torch" not in sys.modules:
            return None
        kind = sys.modules["torch"].Tensor
        tensors, now, sizes = [], [], []
        try:
            for x in value.values():
                if type(x) is not kind:
                    if role_of(type(x)) != "plain":
                        return None
                    continue
                address = x.data_ptr()
                if not address or x.__dict__:
                    return None
                tensors.append(x)
                now.append((address, x._version, x.shape, x.stride(), x.dtype, x.requires_grad))
                # Read once: a storage of another size has another address.
                sizes.append(x.untyped_storage().nbytes())
        except (NotImplementedError, RuntimeError):
            return None
        return Quick(value, tensors, now, sizes)

    @property
    def seen(self) -> list[tuple[Any, ...] | None]:
        """What was kept of each tensor, and None for each plain value, in their order."""
        of = {
            id(tensor): (*layout, size, address, version)
            for tensor, size, (address, version, *layout) in zip(self._tensors, self._bytes, self._now, strict=True)
        }
        return [of.get(id(held)) for held in self.held]

    def same(self) -> bool:
        """Whether everything is as it was."""
        batch = self._batch
        return (
            len(batch) == len(self.keys)
            and all(map(is_, batch, self.keys))
            and all(map(is_, batch.values(), self.held))
            and not any(map(_inside, self._tensors))
            and self._now
            == [(x.data_ptr(), x._version, x.shape, x.stride(), x.dtype, x.requires_grad) for x in self._tensors]
        )
