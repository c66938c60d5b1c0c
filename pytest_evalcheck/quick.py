"""The fast guard of the usual batch, a plain dict of plain tensors, in a few microseconds."""

from __future__ import annotations

import sys
from typing import Any

from pytest_evalcheck.walk import role_of


class Quick:
    """Which tensors were under which keys, and what PyTorch kept of each: its version, place and layout."""

    __slots__ = ("_batch", "held", "keys", "seen")

    def __init__(self, batch: dict[Any, Any]) -> None:
        self._batch = batch
        self.keys, self.held = tuple(batch), tuple(batch.values())
        self.seen = [_seen(value) for value in self.held]

    @staticmethod
    def of(value: Any) -> Quick | None:
        """None for any other nest, and where a tensor keeps no version or hides its storage."""
        if type(value) is not dict:
            return None
        tensor = sys.modules["torch"].Tensor if "torch" in sys.modules else None
        for held in value.values():
            if (type(held) is not tensor and role_of(type(held)) != "plain") or getattr(held, "__dict__", None):
                return None
        try:
            return Quick(value)
        except (NotImplementedError, RuntimeError):
            return None

    def same(self) -> bool:
        """Whether everything is as it was."""
        batch = self._batch
        if len(batch) != len(self.keys):
            return False
        for key, was, (now_key, now), seen in zip(self.keys, self.held, batch.items(), self.seen, strict=True):
            if key is not now_key or was is not now or (seen is not None and _seen(now) != seen):
                return False
        return not any(getattr(held, "__dict__", None) for held in self.held)


def _seen(value: Any) -> tuple[Any, ...] | None:
    try:
        storage = value.untyped_storage()
    except AttributeError:  # a plain value
        return None
    return (
        value.shape,
        value.stride(),
        value.dtype,
        value.requires_grad,
        storage.nbytes(),
        value.data_ptr(),
        value._version,
    )
