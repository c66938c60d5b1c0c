"""Tensors in containers of any nesting: found, and replaced in containers of the same types."""

from __future__ import annotations

import copy
import dataclasses
from collections import UserDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from pytest_evalcheck.fixes.batches import is_namedtuple, rebuilt, shallow

Reads = Collection[str] | None
"""The fields that are read of whatever has named fields; None for all."""


def tensors(value: object, reads: Reads = None) -> Iterator[Tensor]:
    """Give every tensor in a container, in order, as often as it occurs."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, PackedSequence):
        yield value.data
    else:
        inside, reads = _read(value, reads)
        for _, inner in inside:
            yield from tensors(inner, reads)


def replaced(value: Any, change: Callable[[Tensor, str], Tensor], where: str, reads: Reads = None) -> Any:
    """Make a container of the same type with other tensors in it; the same object where no tensor is another.

    ``change`` gets each tensor that is read and how the user would reach it. Only containers on the way to a
    changed tensor are made anew; everything else in them is the same object.
    """
    if isinstance(value, Tensor):
        return change(value, where)
    if isinstance(value, PackedSequence):  # its batch sizes stay on the CPU, so it is no named tuple like others
        data = change(value.data, f"{where}.data")
        return value if data is value.data else value.to(data.device)
    inside, reads = _read(value, reads)
    changed = {}
    for key, inner in inside:
        new = replaced(inner, change, _reach(value, where, key), reads)
        if new is not inner:
            changed[key] = new
    return _with(value, changed) if changed else value


def _read(value: Any, reads: Reads) -> tuple[Iterable[tuple[Any, Any]], Reads]:
    """What is in a container by key, and what of the containers inside is read: all, once a name was followed."""
    if isinstance(value, Mapping):
        inside = list(value.items())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        inside = [(each.name, getattr(value, each.name)) for each in dataclasses.fields(value)]
    elif is_namedtuple(value):
        inside = list(value._asdict().items())
    elif isinstance(value, tuple | list):
        return enumerate(value), reads
    else:
        return (), reads
    return [(key, inner) for key, inner in inside if reads is None or key in reads], None


def _with(value: Any, changed: dict[Any, Any]) -> Any:
    if isinstance(value, Mapping) and not isinstance(value, dict | UserDict):
        return rebuilt(value, {**value, **changed})
    if is_namedtuple(value):
        return value._replace(**changed)
    if isinstance(value, tuple):
        return rebuilt(value, [changed.get(index, inner) for index, inner in enumerate(value)])
    made = copy.copy(value) if isinstance(value, list) else shallow(value)
    for key, new in changed.items():
        if isinstance(value, Mapping | list):
            made[key] = new
        else:
            object.__setattr__(made, key, new)  # frozen dataclasses too
    return made


def _reach(value: object, where: str, key: Any) -> str:
    return f"{where}[{key!r}]" if isinstance(value, Mapping) or isinstance(key, int) else f"{where}.{key}"
