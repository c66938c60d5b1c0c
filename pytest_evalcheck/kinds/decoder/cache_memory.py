"""The memory of a cache: its tensors, wherever they are, and whether anything still references them."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import TargetError
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.tensor_search import find_tensors
from pytest_evalcheck.kinds.decoder.record import Decoder


class CacheMemory:
    """Tells the tensors of a cache from those that a model held before the cache was made.

    A model holds weights, tables of positions, and what an earlier cache left. What is there already, and has the same
    values after decoding, is no memory of the cache; what the record names as ``tensors`` always is.
    """

    def __init__(self, record: Decoder) -> None:
        model = record.model
        weights = model.parameters() if callable(getattr(model, "parameters", None)) else ()
        self._record, self._weights = record, {weight.data_ptr() for weight in weights}
        self._earlier = (
            {} if record.tensors else {t.data_ptr(): t.detach().clone() for t in self._floats(_tensors(model))}
        )

    def tensors_of(self, cache: Any) -> list[Any]:
        """The floating tensors of a cache.

        Raises:
            TargetError: where the ``tensors`` of the record are none.
        """
        if self._record.tensors is None:
            return self._changed(_tensors(cache)) or self._changed(_tensors(self._record.model))
        found = attempt("tensors", lambda: list(self._record.tensors(cache)))  # type: ignore[misc]
        if isinstance(found, Raised):
            raise TargetError("tensors() gave no tensors", actual=str(found), expected="tensors", cause="tensors")
        return list(self._floats(found))

    def is_in_the_model(self, cache: Any) -> bool:
        """Return whether a cache is a handle to state of the model, so that nothing is freed with the handle."""
        return cache is self._record.model or (self._record.tensors is None and not self._changed(_tensors(cache)))

    def _changed(self, tensors: Iterable[Any]) -> list[Any]:
        return [tensor for tensor in self._floats(tensors) if not self._was_there(tensor)]

    def _was_there(self, tensor: Any) -> bool:
        before = self._earlier.get(tensor.data_ptr())
        same_kind = before is not None and before.shape == tensor.shape and before.dtype == tensor.dtype
        return same_kind and bool(((before == tensor) | (before != before)).all())

    def _floats(self, tensors: Iterable[Any]) -> Iterator[Any]:
        for part in (part for tensor in tensors for part in _dense(tensor)):
            if part.is_floating_point() and part.data_ptr() not in self._weights:
                yield part


class StorageWatch:
    """Weak references to the memory of tensors."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        from torch.multiprocessing.reductions import StorageWeakRef

        self._storages = [(StorageWeakRef(t.untyped_storage()), t.untyped_storage().nbytes()) for t in tensors]

    @property
    def size(self) -> int:
        """The bytes of all of it."""
        return sum(size for _, size in self._storages)

    def alive(self) -> int:
        """The bytes that are still referenced."""
        if any(not reference.expired() for reference, _ in self._storages):
            gc.collect()  # slow in a process with many modules, and seldom needed
        return sum(size for reference, size in self._storages if not reference.expired())


def _tensors(source: Any) -> list[Any]:
    return list(find_tensors(source).values())


def _dense(tensor: Any) -> Iterator[Any]:
    """The tensors that a tensor subclass wraps, such as the integers and scales of a quantised one; or itself."""
    if not hasattr(tensor, "__tensor_flatten__"):
        yield tensor
        return
    for name in tensor.__tensor_flatten__()[0]:
        yield from _dense(getattr(tensor, name))
