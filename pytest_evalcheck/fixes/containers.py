"""Tensors in containers of any nesting: finding them, and replacing them in containers of the same types."""

from __future__ import annotations

import copy
import dataclasses
from collections import UserDict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

Reads = Collection[str] | None
"""The fields that are read of a container with named fields; None for all of them."""


def named_tensors(value: object, where: str, reads: Reads = None) -> Iterator[tuple[str, Tensor]]:
    """Yield every tensor in a container with its path, in order, as often as it occurs.

    ``where`` is the path of the container itself.
    """
    if isinstance(value, Tensor):
        yield where, value
    elif isinstance(value, PackedSequence):
        yield f"{where}.data", value.data
    else:
        inside, reads = _read(value, reads)
        for key, inner in inside:
            yield from named_tensors(inner, path_of(value, where, key), reads)


def tensors(value: object, reads: Reads = None) -> Iterator[Tensor]:
    """Yield every tensor in a container, in order, as often as it occurs."""
    return (tensor for _, tensor in named_tensors(value, "", reads))


def replace_tensors(value: Any, change: Callable[[Tensor, str], Tensor], where: str, reads: Reads = None) -> Any:
    """Return a container of the same type with other tensors in it; the same object where no tensor changes.

    ``change`` gets each tensor that is read and its path. Only containers that hold a changed tensor are copied;
    everything else in them is the same object.
    """
    if isinstance(value, Tensor):
        return change(value, where)
    if isinstance(value, PackedSequence):  # A named tuple, but its batch sizes stay on the CPU.
        data = change(value.data, f"{where}.data")
        return value if data is value.data else value.to(data.device)
    inside, reads = _read(value, reads)
    changed = {}
    for key, inner in inside:
        new = replace_tensors(inner, change, path_of(value, where, key), reads)
        if new is not inner:
            changed[key] = new
    return replace_items(value, changed) if changed else value


def items(value: Any) -> list[tuple[Any, Any]] | None:
    """Return the keys and values of a mapping, dataclass, named tuple, tuple or list; None for anything else."""
    if isinstance(value, Mapping):
        return list(value.items())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(each.name, getattr(value, each.name)) for each in dataclasses.fields(value)]
    if is_namedtuple(value):
        return list(value._asdict().items())
    return list(enumerate(value)) if isinstance(value, tuple | list) else None


def replace_items(value: Any, changed: Mapping[Any, Any]) -> Any:
    """Return a copy of a container in which some of the keys of `items` have other values."""
    if isinstance(value, Mapping) and not isinstance(value, dict | UserDict):
        return rebuild(value, {**value, **changed})
    if is_namedtuple(value):
        return value._replace(**changed)
    if isinstance(value, tuple):
        return rebuild(value, [changed.get(index, inner) for index, inner in enumerate(value)])
    result = copy.copy(value)
    for key, new in changed.items():
        if isinstance(value, Mapping | list):
            result[key] = new
        else:
            object.__setattr__(result, key, new)  # for frozen dataclasses too
    return result


def path_of(value: object, where: str, key: Any) -> str:
    """Return the path of an entry of a container as the user would write it."""
    return f"{where}[{key!r}]" if isinstance(value, Mapping) or isinstance(key, int) else f"{where}.{key}"


def shallow_copy(value: Any) -> Any:
    """Return a container of the same type with the same values."""
    if isinstance(value, Mapping) and not isinstance(value, dict | UserDict):
        return rebuild(value, dict(value))
    return copy.copy(value)


def rebuild(value: Any, content: Any) -> Any:
    """Return a container of the type of another; TypeError where its type cannot be called with the content."""
    # For mappings of other libraries: a shallow copy of one may share its storage with the original.
    kind = type(value)
    try:
        return kind(content)
    except Exception as error:
        raise TypeError(f"batch: expected a container that {kind.__name__}(content) makes, got {error}") from error


def is_namedtuple(value: object) -> bool:
    """Return whether this is a named tuple, whose elements have names."""
    return isinstance(value, tuple) and hasattr(value, "_fields")


def is_plain_sequence(value: object) -> bool:
    """Return whether this is a list or a tuple without names."""
    return isinstance(value, tuple | list) and not is_namedtuple(value)


def _read(value: Any, reads: Reads) -> tuple[list[tuple[Any, Any]], Reads]:
    """Return the entries that are read, and what is read inside of these: everything, once a name was followed."""
    inside = items(value) or []
    if is_plain_sequence(value):
        return inside, reads
    return [(key, inner) for key, inner in inside if reads is None or key in reads], None
