"""Whether the memory of a cache is read, and whether it is given back."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import CheckFailure
from pytest_evalcheck.kinds.common.tensors import overwrite
from pytest_evalcheck.kinds.decoder.calls import Ids
from pytest_evalcheck.kinds.decoder.subject import Live


def continued(live: Live, rows: Ids, *, spoilt: bool = False) -> Any:
    """The logits of the last token of rows, or the error; ``spoilt`` overwrites the memory of the cache before it.

    Raises:
        CheckFailure: where the cache has no memory.
    """
    conversation = live.start(len(rows))
    conversation.feed([row[:-1] for row in rows])
    if spoilt and not conversation.error:
        memory = live.memory(conversation.cache)
        if not memory:
            raise CheckFailure(
                "the cache holds no numbers after a prompt",
                detail="Where it is state inside the model, say so: ec.Decoder(..., tensors=lambda cache: [...]).",
            )
        overwrite(memory)
    logits = conversation.feed([row[-1:] for row in rows])
    return logits if isinstance(logits, Raised) else list(logits)


class Watched:
    """The memory of tensors, which does not keep it alive."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        from torch.multiprocessing.reductions import StorageWeakRef

        self._held = [(StorageWeakRef(t.untyped_storage()), t.untyped_storage().nbytes()) for t in tensors]

    @property
    def size(self) -> int:
        """The bytes that it has."""
        return sum(size for _, size in self._held)

    def alive(self) -> int:
        """The bytes of it that somebody still holds."""
        if any(not reference.expired() for reference, _ in self._held):
            gc.collect()  # takes long in a process with many modules, and is seldom needed
        return sum(size for reference, size in self._held if not reference.expired())
