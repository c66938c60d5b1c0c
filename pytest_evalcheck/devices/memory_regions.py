"""Parts of a storage: which bytes a tensor uses, and whether two tensors use the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

_EXACT = 2**20
"""Number of elements up to which two interleaved tensors are compared exactly."""


@contextmanager
def without_modes() -> Iterator[None]:
    """Operators of the block are seen by no mode of this thread, and no gradients are recorded."""
    guard = torch._C._DisableTorchDispatch()  # in effect for as long as the object exists
    try:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            yield
    finally:
        del guard


class Region:
    """The bytes of one storage that a tensor uses. It does not keep the storage alive."""

    def __init__(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        self.address: int = storage._cdata
        self.storage = StorageWeakRef(storage)
        self.dtype, self.itemsize = tensor.dtype, tensor.element_size()
        self.offset, self.size, self.stride = tensor.storage_offset(), tuple(tensor.shape), tensor.stride()
        item = self.itemsize
        reach = sum((size - 1) * stride for size, stride in zip(self.size, self.stride, strict=True))
        self.numel = tensor.numel()
        self.start: int = self.offset * item
        self.end: int = self.start + ((reach + 1) * item if self.numel else 0)
        self.is_dense: bool = self.numel * item == self.end - self.start

    def overlaps(self, other: Region) -> bool:
        """Return whether both use a byte that is the same."""
        if self.address != other.address or self.end <= other.start or other.end <= self.start:
            return False
        if self.itemsize != other.itemsize or (self.is_dense and other.is_dense):
            return True
        first = min(self.offset, other.offset)
        item = self.itemsize
        length = max(self.end, other.end) // item - first
        if length > _EXACT:
            return True
        with without_modes():
            used = torch.zeros(length, dtype=torch.bool, device="cpu")
            used.as_strided(self.size, self.stride, self.offset - first).fill_(True)
            return bool(used.as_strided(other.size, other.stride, other.offset - first).any())

    def view(self) -> Tensor | None:
        """A tensor of this memory, or None where the storage is freed."""
        with without_modes():
            storage = torch.UntypedStorage._new_with_weak_ptr(self.storage.cdata)
            if storage is None:
                return None
            return torch.empty(0, dtype=self.dtype, device="cpu").set_(storage, self.offset, self.size, self.stride)


def alias_of(tensor: Tensor) -> Tensor:
    """An ordinary tensor of the same memory: without a gradient, with a version of its own."""
    empty = torch.empty(0, dtype=tensor.dtype, device="cpu")
    return empty.set_(tensor.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())


def fill_with_garbage(tensor: Tensor) -> None:
    """Overwrite a tensor with values that nobody takes for results: NaN, odd numbers, the opposite of a truth value."""
    if tensor.dtype == torch.bool:
        tensor.logical_not_()
    elif tensor.is_floating_point() or tensor.is_complex():
        tensor.fill_(float("nan"))
    elif tensor.numel():
        size = tensor.element_size()
        pattern = int.from_bytes(b"\xa5" * size, "little", signed=tensor.dtype.is_signed)
        tensor.fill_(pattern)
