"""Containers of every kind with the same tensors, and what can be said of them wherever they are."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from types import MappingProxyType
from typing import Any

import torch
from torch.nn.utils.rnn import pack_sequence

from pytest_evalcheck.devices import Ledger

Pair = namedtuple("Pair", "inputs labels")


@dataclasses.dataclass
class Batch:
    inputs: Any
    labels: Any
    name: str = "batch"


@dataclasses.dataclass(frozen=True)
class Frozen:
    inputs: Any
    labels: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Slots:
    inputs: Any
    labels: Any


class Tagged(list):
    tag = "none"


def inputs() -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3)


def labels() -> torch.Tensor:
    return torch.tensor([1, 2])


def named(**extra: Any) -> dict[str, Any]:
    return {"inputs": inputs(), "labels": labels(), **extra}


CONTAINERS: dict[str, Any] = {
    "tensor": inputs,
    "dict": named,
    "dict in a list": lambda: [named(), "text", None],
    "OrderedDict": lambda: OrderedDict(named(mode="eval")),
    "defaultdict": lambda: defaultdict(list, named()),
    "UserDict": lambda: UserDict(named()),
    "read-only mapping": lambda: MappingProxyType(named()),
    "tuple": lambda: (inputs(), labels(), 3),
    "list": lambda: [inputs(), [labels()]],
    "subclass of list": lambda: Tagged([inputs(), labels()]),
    "namedtuple": lambda: Pair(inputs(), {"labels": labels()}),
    "dataclass": lambda: Batch(inputs(), (labels(),)),
    "frozen dataclass": lambda: Frozen(inputs(), [Frozen(labels(), 0)]),
    "dataclass with slots": lambda: Slots(inputs(), {"deep": Pair(labels(), ())}),
    "packed sequence": lambda: pack_sequence([torch.tensor([1.0, 2.0]), torch.tensor([3.0])]),
    "all of them": lambda: {"a": [Pair(inputs(), Batch(UserDict(named()), (labels(),)))], "b": OrderedDict(c=labels())},
}


def shape(value: Any) -> Any:
    """Types, order and content, without devices."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.cpu().tolist()
    if hasattr(value, "items"):
        return type(value), [(key, shape(inner)) for key, inner in value.items()]
    if dataclasses.is_dataclass(value):
        return type(value), [shape(getattr(value, each.name)) for each in dataclasses.fields(value)]
    if isinstance(value, tuple | list):
        return type(value), [shape(inner) for inner in value]
    return value


def places(value: Any) -> set[str]:
    if isinstance(value, torch.Tensor):
        return {str(value.device)}
    if hasattr(value, "items"):
        value = list(value.values())
    elif dataclasses.is_dataclass(value):
        value = [getattr(value, each.name) for each in dataclasses.fields(value)]
    return set().union(*map(places, value)) if isinstance(value, tuple | list) else set()


def ways(ledger: Ledger) -> list[tuple[str, str, int]]:
    return [(each.source, each.target, each.bytes) for each in ledger.transfers]
