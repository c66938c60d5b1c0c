"""What a tensor, an array or a buffer was like: where its memory is, how it is laid out, which values it holds."""

from __future__ import annotations

import array
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pytest_evalcheck.digest import SMALL, Values, hashed, readable
from pytest_evalcheck.walk import role_of

_COMPRESSED = {
    "torch.sparse_csr": ("crow_indices", "col_indices"),
    "torch.sparse_bsr": ("crow_indices", "col_indices"),
    "torch.sparse_csc": ("ccol_indices", "row_indices"),
    "torch.sparse_bsc": ("ccol_indices", "row_indices"),
}
_LAYOUT = (
    *("shape", "stride", "dtype", "device", "requires_grad", "layout", "offset", "bytes of its storage"),
    *("conjugate", "negative"),
)
_OTHER = ("shape", "dtype", "device", "requires_grad", "layout", "shapes of its parts", "coalesced")
_ARRAY = ("shape", "strides", "dtype", "writeable")


class Leaf:
    """A tensor or an array as it was. Without values (``exact=False``) only what PyTorch itself keeps count of."""

    __slots__ = ("_place", "_source", "_state", "_storage", "_values", "_version")

    def __init__(self, source: Any, *, exact: bool) -> None:
        self._source = source
        # The storage is held, so that neither its id nor its address can come back as another one's.
        self._storage, self._place, self._state = look(source)
        self._values = {name: Values(part) for name, part in _parts(source)} if exact else None
        self._version = None if exact else _version(source)

    @classmethod
    def seen(cls, source: Any, seen: tuple[Any, ...]) -> Leaf:
        """As `quick` saw a tensor; what it does not look at is taken for unchanged."""
        self = cls(source, exact=False)
        shape, stride, dtype, requires_grad, storage_bytes, address, self._version = seen
        _, place, now = look(source)
        self._state = (shape, stride, dtype, now[3], requires_grad, *now[5:7], storage_bytes, *now[8:])
        self._place = place if address == source.data_ptr() else (0, address)
        return self

    @property
    def memory(self) -> int:
        """The address of what it lay in; 0 for nothing."""
        return self._place[1]

    @property
    def memory_now(self) -> int:
        """The address of what it lies in."""
        return look(self._source)[1][1]

    def changes(self, sharing: Callable[[], str]) -> Iterator[str]:
        """One line for every change, as it goes on after the path; ``sharing`` says who shares its memory now."""
        _, place, state = look(self._source)
        if state != self._state:
            told = [
                f"{name} {_told(old)} became {_told(new)}"
                for name, old, new in zip(_names(state), self._state, state, strict=False)
                if old != new
            ]
            yield f": {', '.join(told)}"
        if place != self._place:
            yield f": was moved to other memory{sharing()}"
        if self._values is None:
            version = _version(self._source)
            if version != self._version:
                yield f": was written to in place (version {self._version} became {version})"
            return
        for name, part in _parts(self._source):
            if name in self._values and (line := self._values[name].difference(part)):
                yield f"{name}{line}"

    def against(self, other: Any) -> str | None:
        """Where another tensor or array holds other values than this one did; empty where it holds the same.

        None if they cannot be compared place by place.
        """
        if self._values is None or set(self._values) != {""} or not self._values[""].comparable(other):
            return None
        return self._values[""].difference(other) or ""


class Buffer:
    """A bytearray or an array.array as it was."""

    memory = memory_now = 0

    def __init__(self, source: Any, *, exact: bool) -> None:
        self._source, self._exact, self._length = source, exact, len(source)
        data = bytes(source) if exact else b""
        self._copy, self._digest = (data, b"") if len(data) <= SMALL else (b"", hashed(data))

    def changes(self, _: Callable[[], str]) -> Iterator[str]:
        """One line for every change, as it goes on after the path."""
        if len(self._source) != self._length:
            yield f": length {self._length} became {len(self._source)}"
            return
        data = bytes(self._source) if self._exact else b""
        if self._digest:
            if hashed(data) != self._digest:
                yield ": values changed"
        elif data != self._copy:
            old = type(self._source)(*_made_of(self._source), self._copy)
            wrong = [i for i, value in enumerate(self._source) if value != old[i] and value == value]
            at = wrong[0] if wrong else 0
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            yield f"[{at}]: {old[at]!r} became {self._source[at]!r}{more}"

    def against(self, _: Any) -> str | None:
        """Not compared."""
        return None


def leaf_of(value: Any, *, exact: bool) -> Leaf | Buffer | None:
    """What a value was like, if it is a tensor, an array or a buffer."""
    role = role_of(type(value))
    if role in ("tensor", "array"):
        return Leaf(value, exact=exact)
    return Buffer(value, exact=exact) if role == "buffer" else None


def look(source: Any) -> tuple[Any, tuple[int, int], tuple[Any, ...]]:
    """The storage of a tensor or array, the id and the address of that, and its layout."""
    if role_of(type(source)) == "array":
        owner = source
        while role_of(type(owner.base)) == "array":
            owner = owner.base
        address = owner.__array_interface__["data"][0] if source.size else 0
        return owner, (id(owner), address), (source.shape, source.strides, source.dtype, source.flags.writeable)
    try:
        storage, stride = source.untyped_storage(), source.stride()
        place = (storage._cdata, storage.data_ptr())
    except (NotImplementedError, RuntimeError):  # sparse, quantized, nested, wrapped
        return None, (0, 0), _unusual(source)
    return (
        storage,
        place,
        (
            source.shape,
            stride,
            source.dtype,
            source.device,
            source.requires_grad,
            source.layout,
            source.storage_offset(),
            storage.nbytes(),
            source.is_conj(),
            source.is_neg(),
        ),
    )


def _unusual(source: Any) -> tuple[Any, ...]:
    ragged = source.is_nested and not hasattr(type(source), "__tensor_flatten__")
    parts = tuple((name, tuple(part.shape)) for name, part in _parts(source) if name)
    return (
        source._nested_tensor_size().tolist() if ragged else source.shape,
        source.dtype,
        source.device,
        source.requires_grad,
        source.layout,
        parts,
        str(source.layout) == "torch.sparse_coo" and source.is_coalesced(),
    )


def _names(state: tuple[Any, ...]) -> tuple[str, ...]:
    return next(names for names in (_LAYOUT, _OTHER, _ARRAY) if len(names) == len(state))


def _parts(source: Any) -> Iterable[tuple[str, Any]]:
    """The dense tensors that a tensor is made of; itself, for most."""
    if role_of(type(source)) == "array":
        return () if source.dtype.hasobject else (("", source),)
    if source.device.type == "meta":
        return ()
    if hasattr(source, "__tensor_flatten__"):
        inner = {name: getattr(source, name) for name in source.__tensor_flatten__()[0]}
        return [(f".{name}{place}", part) for name, held in inner.items() for place, part in _parts(held)]
    if _is_plain(source):
        return (("", source),) if readable(source) else ()
    source, layout = source.detach(), str(source.layout)
    if layout == "torch.sparse_coo":
        return (".indices()", source._indices()), (".values()", source._values())
    if layout in _COMPRESSED:
        return [(f".{name}()", getattr(source, name)()) for name in (*_COMPRESSED[layout], "values")]
    if source.is_nested:
        return ((".values()", source.values()),)
    if source.is_quantized:
        return ((".int_repr()", source.int_repr()),)
    return (("", source.to_dense()),)


def _is_plain(tensor: Any) -> bool:
    strided = sys.modules["torch"].strided
    return tensor.layout is strided and not (tensor.is_nested or tensor.is_quantized)


def _version(source: Any) -> int | None:
    try:
        return int(source._version)
    except (AttributeError, RuntimeError):  # arrays; tensors made under inference_mode keep no count
        return None


def _made_of(source: Any) -> tuple[str, ...]:
    return (source.typecode,) if isinstance(source, array.array) else ()


def _told(value: Any) -> str:
    return str(tuple(value) if isinstance(value, tuple) else value)
