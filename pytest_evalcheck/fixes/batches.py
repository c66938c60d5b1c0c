"""What a batch must be before it is evaluated, and the errors that say what it is instead."""

from __future__ import annotations

import copy
import dataclasses
import difflib
from collections import Counter, UserDict
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

import torch
from torch import Tensor


class MissingField(KeyError):
    """A batch lacks a field that is needed; a KeyError whose text reads as a sentence."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


def require_batch(
    batch: object,
    *,
    fields: Iterable[str] = ("labels",),
    integers: Iterable[str] = (),
    rows: Iterable[str] | None = None,
) -> int:
    """Refuse a batch that cannot be scored, and return its number of rows.

    A batch is a mapping, a dataclass, or a tuple or list whose last element is the labels. ``fields`` must be
    there and not None; ``integers`` must be integer tensors where they are there. ``rows`` names the fields
    that have one entry per row, tensors or anything with a length; without it every tensor of one dimension
    or more has, also in nested containers. The batch is only read.

    Raises `MissingField` (a KeyError) for a field that is missing, TypeError for what is no batch and for a
    wrong dtype, ValueError for no fields, no rows, or rows that disagree; each names the field, what was
    expected and, where one is close, the key that was probably meant. A batch in which nothing has rows
    counts as one row.
    """
    held = named(batch)
    for name in fields:
        _found(batch, held, name)
    for name in integers:
        if _key(batch, name) in held:
            require_integers(held[_key(batch, name)], path(batch, name))
    if rows is None:
        lengths = list(_tensor_rows(batch, "batch"))
    else:
        present = [(name, held[_key(batch, name)]) for name in rows if _key(batch, name) in held]
        lengths = [(path(batch, name), length) for name, value in present if (length := _length(value)) is not None]
    return _agreed(lengths)


def field(batch: object, name: str) -> Any:
    """Return a field of a batch; of a plain tuple or list, whose last element is the labels, that one.

    `MissingField` where it is not there or None.
    """
    return _found(batch, named(batch), name)


def named(batch: Any) -> Mapping[str, Any]:
    """Give the fields of a batch by name, those of a plain tuple or list by position.

    TypeError for what is no batch, ValueError for one without fields.
    """
    held: Mapping[str, Any]
    if isinstance(batch, Mapping):
        held = batch
    elif dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        held = {each.name: getattr(batch, each.name) for each in dataclasses.fields(batch)}
    elif is_namedtuple(batch):
        held = batch._asdict()
    elif _is_plain_sequence(batch):
        held = {str(index): value for index, value in enumerate(batch)}
        if len(held) < 2:
            raise ValueError(f"batch: expected (inputs, labels), got a {type(batch).__name__} of {len(held)}")
    else:
        raise TypeError(
            "batch: expected a mapping such as a dict or a BatchEncoding, a dataclass or (inputs, labels), "
            f"got {type(batch).__name__}"
        )
    if not held:
        raise ValueError(f"batch: expected fields, got an empty {type(batch).__name__}")
    return held


def path(batch: object, name: str) -> str:
    """Write a field as the user would reach it."""
    if isinstance(batch, Mapping):
        return f"batch[{name!r}]"
    return "batch[-1]" if _is_plain_sequence(batch) else f"batch.{name}"


def shallow(batch: Any) -> Any:
    """Make a container of the same type with the same values."""
    if isinstance(batch, Mapping) and not isinstance(batch, dict | UserDict):
        return rebuilt(batch, dict(batch))
    return copy.copy(batch)


def rebuilt(batch: Any, content: Any) -> Any:
    """Make a container of the type of a batch; TypeError where its type is not made of its content."""
    # For mappings of other libraries: a shallow copy of one may share its storage with the original.
    kind = type(batch)
    try:
        return kind(content)
    except Exception as error:
        raise TypeError(f"batch: expected a container that {kind.__name__}(content) makes, got {error}") from error


def is_namedtuple(batch: object) -> Any:
    """Tell named tuples, whose elements have names, from plain ones."""
    return isinstance(batch, tuple) and hasattr(batch, "_fields")


def require_integers(value: object, where: str) -> None:
    """Refuse, with a TypeError, what is no tensor of integers; booleans are none."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{where}: expected a tensor of integers, got {type(value).__name__}")
    if value.is_floating_point() or value.is_complex() or value.is_quantized or value.dtype == torch.bool:
        raise TypeError(f"{where}: expected a tensor of integers such as torch.int64, got {value.dtype}")


def _is_plain_sequence(batch: object) -> Any:
    return isinstance(batch, tuple | list) and not is_namedtuple(batch)


def _key(batch: Any, name: str) -> str:
    return str(len(batch) - 1) if _is_plain_sequence(batch) else name


def _found(batch: object, held: Mapping[str, Any], name: str) -> Any:
    key = _key(batch, name)
    if key not in held:
        close = difflib.get_close_matches(name, map(str, held), n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise MissingField(f"batch: expected a field {name!r}, got {', '.join(map(repr, held))}{hint}")
    value = held[key]
    if value is None:
        raise MissingField(f"{path(batch, name)}: expected a value, got None")
    return value


def _tensor_rows(value: object, where: str) -> Iterator[tuple[str, int]]:
    if isinstance(value, Tensor):
        if value.dim():
            yield where, len(value)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _tensor_rows(inner, f"{where}[{key!r}]")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for each in dataclasses.fields(value):
            yield from _tensor_rows(getattr(value, each.name), f"{where}.{each.name}")
    elif isinstance(value, tuple | list):
        for index, inner in enumerate(value):
            yield from _tensor_rows(inner, f"{where}[{index}]")


def _length(value: object) -> int | None:
    if isinstance(value, Tensor):
        return value.shape[0] if value.dim() else None
    return len(value) if isinstance(value, Sized) and not isinstance(value, str | bytes) else None


def _agreed(lengths: list[tuple[str, int]]) -> int:
    if not lengths:
        return 1
    first = lengths[0][1]
    if first and all(length == first for _, length in lengths):
        return first
    most = Counter(length for _, length in lengths).most_common(1)[0][0]
    typical = next(where for where, length in lengths if length == most)
    for where, length in lengths:
        if length != most:
            raise ValueError(f"{where}: expected {most} rows as in {typical}, got {length}")
    if not most:
        raise ValueError(f"batch: expected at least one row, got none in {typical}")
    return most
