"""The layout, the memory and the values of a tensor, an array or a buffer at one moment.

Values are compared bit for bit. They are copied while a budget lasts, so that a message can name the old values;
of other values a 128-bit BLAKE2b digest is kept, which detects every change but cannot name it.
"""

from __future__ import annotations

import array
import ctypes
import hashlib
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from pytest_evalcheck.guard.traversal import kind_of

_LAYOUT = ("dtype", "device", "requires_grad", "layout")
_COMPRESSED = {
    **dict.fromkeys(("torch.sparse_csr", "torch.sparse_bsr"), ("crow_indices", "col_indices", "values")),
    **dict.fromkeys(("torch.sparse_csc", "torch.sparse_bsc"), ("ccol_indices", "row_indices", "values")),
}


# Buffers of released copies, of 128 KiB to 4 MiB: to get new memory from the system takes ten times as long as to copy.
_spare: deque[bytearray] = deque(maxlen=8)
_REUSED = range(2**17, 2**22 + 1)


class CopyBudget:
    """Copies of values, of ``limit`` bytes together."""

    def __init__(self, limit: int) -> None:
        self.limit = self._left = limit

    def copy(self, data: memoryview) -> bytearray | None:
        """Copy the values; None where too few bytes are left."""
        if data.nbytes > self._left:
            return None
        self._left -= data.nbytes
        for _ in range(len(_spare) if data.nbytes in _REUSED else 0):
            with suppress(IndexError):  # another thread may have taken the last one
                buffer = _spare.popleft()
                if len(buffer) == data.nbytes:
                    memoryview(buffer)[:] = data  # assigning to the buffer itself makes a second copy
                    return buffer
                _spare.append(buffer)
        return bytearray(data)


class TensorSnapshot:
    """A tensor, an array or a buffer at one moment; without a budget only its layout, memory and version."""

    def __init__(self, source: Any, budget: CopyBudget | None) -> None:
        self._source = source
        # The storage is kept alive, so that neither its id nor its address can be used again.
        self._storage, (self._storage_id, self.address), self._layout = _inspect(source)
        self._values = None if budget is None else {name: _Values(part, budget) for name, part in _parts(source)}
        self._version = _version(source) if budget is None else None

    def replace_recorded(self, address: int, version: int, layout: dict[str, Any]) -> None:
        """Take what `fast_guard` recorded earlier for what was so; the rest counts as unchanged."""
        self._version, self._layout = version, self._layout | layout
        if address != self._source.data_ptr():
            self._storage_id, self.address = 0, address

    def changes(self, sharing: Callable[[], str]) -> Iterator[str]:
        """One line per change, which continues the path; ``sharing`` describes who shares the memory now."""
        _, memory, layout = _inspect(self._source)
        if layout != self._layout:
            different = [name for name in layout if name in self._layout and layout[name] != self._layout[name]]
            sides = ((name, _format_layout(self._layout[name]), _format_layout(layout[name])) for name in different)
            yield f": {', '.join(f'{name} {old} became {new}' for name, old, new in sides)}"
        if memory != (self._storage_id, self.address):
            yield f": was moved to other memory{sharing()}"
        if self._values is None:
            version = _version(self._source)
            if version != self._version:
                yield f": was written to in place (version {self._version} became {version})"
            return
        for name, part in _parts(self._source):
            if name in self._values and (line := self._values[name].difference(part)):
                yield f"{name}{line}"

    def difference_from(self, other: Any) -> str | None:
        """Describe how the values of another object differ from these; '' where they do not, None if not comparable."""
        values, dense = (self._values or {}).get(""), [name for name, _ in _parts(other)] == [""]
        return (values.difference(other) or "") if values and dense and values.comparable(other) else None


def address_of(value: Any) -> int:
    """The address of the memory that a tensor or an array uses; 0 for none."""
    return _inspect(value)[1][1] if kind_of(value) in ("tensor", "array") else 0


def _inspect(source: Any) -> tuple[Any, tuple[int, int], dict[str, Any]]:
    """The storage, its id and address, and the layout."""
    kind = kind_of(source)
    if kind == "buffer":
        return None, (0, 0), {"length": len(source)}
    if kind == "array":
        owner = source
        while kind_of(owner.base) == "array":
            owner = owner.base
        address = owner.__array_interface__["data"][0] if source.size else 0
        layout = {"shape": source.shape, "strides": source.strides, "dtype": source.dtype}
        return owner, (id(owner), address), {**layout, "writeable": source.flags.writeable}
    try:
        storage, stride = source.untyped_storage(), source.stride()
        memory = (storage._cdata, storage.data_ptr())
    except (NotImplementedError, RuntimeError):  # sparse, quantized, nested, wrapper subclass
        ragged = source.is_nested and not hasattr(type(source), "__tensor_flatten__")
        shape = source._nested_tensor_size().tolist() if ragged else source.shape
        parts = tuple((name, tuple(part.shape)) for name, part in _parts(source) if name)
        coalesced = str(source.layout) == "torch.sparse_coo" and source.is_coalesced()
        layout = {"shape": shape, "shapes of its parts": parts, "coalesced": coalesced}
        return None, (0, 0), layout | {name: getattr(source, name) for name in _LAYOUT}
    layout = {"shape": source.shape, "stride": stride, **{name: getattr(source, name) for name in _LAYOUT}}
    layout |= {"offset": source.storage_offset(), "bytes of its storage": storage.nbytes()}
    return storage, memory, layout | {"conjugate": source.is_conj(), "negative": source.is_neg()}


def _format_layout(value: Any) -> str:
    return str(tuple(value) if isinstance(value, tuple) else value)


def _version(source: Any) -> int | None:
    try:
        return int(source._version)
    except (AttributeError, RuntimeError):  # arrays and inference tensors have no version
        return None


def _parts(source: Any) -> Iterable[tuple[str, Any]]:
    """The dense tensors, arrays and buffers that hold the values; for most sources the source itself."""
    kind = kind_of(source)
    if kind == "array":
        return () if source.dtype.hasobject else (("", source),)
    if kind == "buffer":
        return (("", source),)
    if kind != "tensor" or source.device.type == "meta":
        return ()
    if hasattr(source, "__tensor_flatten__"):
        inner = {name: getattr(source, name) for name in source.__tensor_flatten__()[0]}
        return [(f".{name}{path}", part) for name, held in inner.items() for path, part in _parts(held)]
    if source.layout is sys.modules["torch"].strided and not (source.is_nested or source.is_quantized):
        return (("", source),) if _has_memory(source) else ()
    source, layout = source.detach(), str(source.layout)
    if layout == "torch.sparse_coo":
        return (".indices()", source._indices()), (".values()", source._values())
    if layout in _COMPRESSED:
        return [(f".{name}()", getattr(source, name)()) for name in _COMPRESSED[layout]]
    if source.is_nested:
        return ((".values()", source.values()),)
    return ((".int_repr()", source.int_repr()),) if source.is_quantized else (("", source.to_dense()),)


def _has_memory(tensor: Any) -> bool:
    """Return whether the storage still holds all elements; it may have been resized."""
    reach = tensor.numel()
    if reach and not tensor.is_contiguous():
        reach = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    end = (tensor.storage_offset() + reach) * tensor.itemsize
    return not reach or bool(end <= tensor.untyped_storage().nbytes())


class _Values:
    """The values of one dense source: a copy, or a digest where the budget does not allow one."""

    _copy: bytearray | None = None

    def __init__(self, source: Any, budget: CopyBudget) -> None:
        self._format = _format(source)
        # An expanded dimension holds one value many times, and is read once.
        strides = getattr(source, "strides", ()) if self._format[0] != "tensor" else source.stride()
        self._expanded = [dim for dim, step in enumerate(strides) if step == 0 and source.shape[dim] > 1]
        data = _read(source, self._expanded)
        self._size, self._limit = data.nbytes, budget.limit
        self._copy = budget.copy(data)
        self._digest = _digest(data) if self._copy is None else b""

    def __del__(self) -> None:
        if self._copy is not None and len(self._copy) in _REUSED:
            _spare.append(self._copy)

    def comparable(self, other: Any) -> bool:
        """Return whether another dense source has as many values of the same dtype, each at the same index."""
        return not self._expanded and _format(other) == self._format

    def difference(self, source: Any) -> str | None:
        """Return the first index at which values differ, with both values, or None. Other shapes are not compared."""
        if _format(source) != self._format:
            return None
        data = _read(source, self._expanded)
        if self._copy is None:
            reason = f"no copy of its {self._size:,} bytes was kept: copy_limit={self._limit}"
            return None if _digest(data) == self._digest else f": values changed ({reason})"
        if self._copy.startswith(data):  # of equal lengths: a comparison that makes no second copy
            return None
        width = getattr(source, "itemsize", 1)
        first, count = _compare(self._copy, bytes(data), width)
        place = slice(first * width, (first + 1) * width)
        index: list[int] = []
        for dim, size in reversed([*enumerate(self._format[1])]):
            first, at = divmod(first, 1 if dim in self._expanded else size)
            index.insert(0, at)
        old, new = _element(source, bytes(self._copy[place])), _element(source, bytes(data[place]))
        return f"{index or ''}: {old!r} became {new!r}{f' (and {count - 1} more)' if count > 1 else ''}"


def _format(source: Any) -> tuple[str, tuple[int, ...], Any]:
    """The kind, shape and dtype."""
    kind = kind_of(source)
    if kind == "buffer":
        return kind, (len(source),), getattr(source, "typecode", "B")
    return kind, tuple(source.shape), source.dtype


def _read(source: Any, expanded: list[int]) -> memoryview:
    """The bytes of the values in the order of their indices: in place if they lie so, else of a copy."""
    kind = kind_of(source)
    if kind == "buffer":
        return memoryview(source).cast("B")
    index = tuple(slice(1) if dim in expanded else slice(None) for dim in range(source.ndim)) if expanded else ...
    if kind == "array":
        import numpy as np

        flat = np.ascontiguousarray(np.asarray(source)[index]).reshape(-1)
        return memoryview(flat.view("u1") if flat.nbytes else b"")
    if expanded or source.is_conj() or source.is_neg() or not (source.is_cpu and source.is_contiguous()):
        source = source.detach()[index].resolve_conj().resolve_neg().cpu().contiguous()
    if not source.nbytes:
        return memoryview(b"")
    block = (ctypes.c_char * source.nbytes).from_address(source.data_ptr())
    block.owner = source  # the view keeps the memory alive
    return memoryview(block).cast("B")


def _digest(data: memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _compare(old: bytearray, new: bytes, width: int) -> tuple[int, int]:
    """The first element that differs, and how many do; elements are ``width`` bytes wide."""
    differing = (int.from_bytes(old, "big") ^ int.from_bytes(new, "big")).to_bytes(len(old), "big")
    elements = 0  # one byte per element, which is not zero where any byte of the element differs
    for at in range(width):
        elements |= int.from_bytes(differing[at::width], "big")
    flags = elements.to_bytes(len(old) // width, "big")
    return len(flags) - len(flags.lstrip(b"\0")), len(flags) - flags.count(0)


def _element(source: Any, raw: bytes) -> Any:
    """One element as Python shows it."""
    kind = kind_of(source)
    if kind == "buffer":
        return array.array(getattr(source, "typecode", "B"), raw)[0]
    if kind == "tensor":
        import torch

        return torch.frombuffer(bytearray(raw), dtype=source.dtype)[0].item()
    import numpy as np

    return np.frombuffer(raw, source.dtype)[0].item()
