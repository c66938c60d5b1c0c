"""The values of a tensor or an array, remembered without a second copy of them.

Up to 64 KiB are copied. Of more there is a 128-bit digest, which tells exactly whether they changed, and the sums of
their rows and columns, from which the old values of the usual changes are recovered and proved by the digest: of single
places, of one row or column, of rows or columns that changed places, of a shift by one. Of any other change the value
at every 509th place tells from what to what, if it met some of these.
"""

from __future__ import annotations

import ctypes
import hashlib
from typing import Any, NamedTuple

from pytest_evalcheck.digest.sums import Sums

try:
    from xxhash import xxh3_128_digest as _xxh3
except ImportError:
    _xxh3 = None  # type: ignore[assignment]


def hashed(data: Any) -> bytes:
    """128 bits of some bytes: xxHash where it is installed, else a slower one."""
    return _xxh3(data) if _xxh3 is not None else hashlib.blake2b(data, digest_size=16).digest()


SMALL = 64 * 1024
_STEP = 509  # prime, so that a change in every row or column of a usual width meets some of the places
_SAMPLED: dict[int, Any] = {1: "B", 2: "H", 4: "I", 8: "Q"}
_SHOWN = 4
_Change = tuple[int, bytes, bytes, int]

_memory = ctypes.pythonapi.PyMemoryView_FromMemory
_memory.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)
_memory.restype = ctypes.py_object
_READ = 0x100  # PyBUF_READ


class Values:
    """What the values of one strided tensor or array were."""

    def __init__(self, source: Any) -> None:
        self._order = _order(source)
        dense = _read(source, self._order)
        self._size, self._shape, self._dtype = dense.size, tuple(source.shape), source.dtype
        self._tensor = _is_tensor(source)
        self._copy: bytes | None = None
        if len(dense.memory) <= SMALL:
            self._copy = bytes(dense.memory)
        else:
            self._digest, self._sample = hashed(dense.memory), _sample(dense)
            self._sums = Sums.of(dense.memory, self._size, self._row())

    def comparable(self, other: Any) -> bool:
        """Whether another tensor or array has places and values of the same kind."""
        if not (hasattr(other, "shape") and hasattr(other, "dtype") and _is_tensor(other) is self._tensor):
            return False
        dense = str(getattr(other, "layout", "torch.strided")) == "torch.strided"
        whole = self._order is None or len(self._order) == len(self._shape)
        return (
            dense
            and whole
            and readable(other)
            and tuple(other.shape) == self._shape
            and bool(other.dtype == self._dtype)
        )

    def difference(self, source: Any) -> str | None:
        """None, or the first place and its values; another shape or dtype is not compared."""
        if tuple(source.shape) != self._shape or source.dtype != self._dtype:
            return None
        dense = _read(source, self._order)
        if self._copy is not None:
            now = bytes(dense.memory)
            return None if now == self._copy else self._told(dense, _unequal(self._copy, now, self._size))
        return None if hashed(dense.memory) == self._digest else self._located(dense)

    def _located(self, dense: _Dense) -> str:
        if self._sums is not None:
            old = self._sums.recovered(dense.memory, self._row(), lambda data: hashed(data) == self._digest)
            if old is not None:
                return self._told(dense, _apart(old, dense.memory, self._size))
        at, was, became, found = _unequal(self._sample, _sample(dense), self._size)
        if found:
            more = "perhaps" if found == 1 else f"at least {found - 1}"
            return self._told(dense, (at * _STEP, was, became, 1), f" (and {more} more)")
        count = len(dense.memory) // self._size
        first, end, shown = 0, count, 0
        if self._sums is not None:
            lane = self._sums.lane
            first, end, shown = (at * lane // self._size for at in self._sums.seen(dense.memory))
        elsewhere = "" if end - first == count else " and perhaps elsewhere"
        places = [at * self._size for at in range(shown, min(shown + _SHOWN, end))]
        now = ", ".join(dense.show(dense.memory[at : at + self._size]) for at in places)
        between = f"between {self._index(first)} and {self._index(end - 1)}"
        return f" {between}{elsewhere}: values changed, now {now}, ..."

    def _told(self, dense: _Dense, change: _Change, more: str = "") -> str:
        at, old, new, count = change
        more = more or (f" (and {count - 1} more)" if count > 1 else "")
        return f"{self._index(at) or ''}: {dense.show(old)} became {dense.show(new)}{more}"

    def _row(self) -> int:
        """How many elements the innermost dimension has."""
        return int(self._shape[self._order[-1] if self._order else -1])

    def _index(self, flat: int) -> list[int]:
        """Where an element of the dense memory lies in the tensor as it was given."""
        place = [0] * len(self._shape)
        for dim in reversed(range(len(place)) if self._order is None else self._order):
            flat, place[dim] = divmod(flat, self._shape[dim])
        return place


class _Dense(NamedTuple):
    """Values in one run of memory, and what they belong to, which must outlive the view of it."""

    owner: Any
    memory: memoryview

    @property
    def size(self) -> int:
        return int(self.owner.dtype.itemsize)

    def show(self, raw: Any) -> str:
        if _is_tensor(self.owner):
            import torch

            value = torch.frombuffer(bytearray(raw), dtype=self.owner.dtype)[0].item()
        else:
            import numpy as np

            value = np.frombuffer(bytes(raw), dtype=self.owner.dtype)[0]
            value = value.item() if hasattr(value, "item") else value
        return repr(value)


def readable(source: Any) -> bool:
    """Whether the memory that a strided tensor speaks of is there; a storage may have been resized under it."""
    if not _is_tensor(source):
        return True
    reach = source.numel()
    if reach and not source.is_contiguous():
        reach = 1 + sum((size - 1) * step for size, step in zip(source.shape, source.stride(), strict=True))
    end = (source.storage_offset() + reach) * source.itemsize
    return not reach or bool(end <= source.untyped_storage().nbytes())


def _order(source: Any) -> tuple[int, ...] | None:
    """The dimensions from the widest stride to the narrowest, in which most tensors are dense; None for as they are.

    What is expanded holds one value many times and is left out: it is read once.
    """
    is_tensor = _is_tensor(source)
    if source.is_contiguous() if is_tensor else source.flags.c_contiguous:
        return None
    strides = source.stride() if is_tensor else source.strides
    kept = [dim for dim, (size, stride) in enumerate(zip(source.shape, strides, strict=True)) if stride or size == 0]
    return tuple(sorted(kept, key=lambda dim: -abs(strides[dim])))


def _read(source: Any, order: tuple[int, ...] | None) -> _Dense:
    if not _is_tensor(source):
        import numpy as np

        plain = np.asarray(source)
        if order is not None:
            plain = plain[tuple(slice(None) if dim in order else 0 for dim in range(plain.ndim))]
            plain = plain.transpose([sorted(order).index(dim) for dim in order])
        plain = np.ascontiguousarray(plain).reshape(-1)
        return _Dense(plain, memoryview(plain.view("u1")) if plain.nbytes else memoryview(b""))
    if order is not None or source.is_conj() or source.is_neg() or not (source.is_cpu and source.is_contiguous()):
        source = _dense(source.detach(), order)
    size = source.nbytes
    return _Dense(source, _memory(source.data_ptr(), size, _READ) if size else memoryview(b""))


def _dense(tensor: Any, order: tuple[int, ...] | None) -> Any:
    """The values in one run of CPU memory: the tensor's own if it can be, else a copy for as long as they are read."""
    if order is not None:
        left_out = [dim for dim in range(tensor.dim()) if dim not in order]
        first = (..., *(0 for _ in left_out))
        tensor = tensor.permute([*order, *left_out])[first]
    return tensor.resolve_conj().resolve_neg().cpu().contiguous()


def _sample(dense: _Dense) -> bytes:
    form = _SAMPLED.get(dense.size)
    return dense.memory.cast(form)[::_STEP].tobytes() if form else b""


def _unequal(old: bytes, new: bytes, size: int) -> _Change:
    """The elements that differ bit for bit: the place of the first, what it was and is, and how many there are."""
    pairs = ((old[at : at + size], new[at : at + size]) for at in range(0, len(old), size))
    found = [(i, a, b) for i, (a, b) in enumerate(pairs) if a != b]
    return (*found[0], len(found)) if found else (0, b"", b"", 0)


def _apart(old: Any, memory: memoryview, size: int) -> _Change:
    """The same of what was recovered."""
    import numpy as np

    before, now = (data.reshape(-1, size) for data in (old, np.frombuffer(memory, "u1")))
    found = (before != now).any(1).nonzero()[0]
    return int(found[0]), before[found[0]].tobytes(), now[found[0]].tobytes(), len(found)


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "untyped_storage")
