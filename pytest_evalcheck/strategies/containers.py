"""What a batch comes in: the mappings and records that loaders of real libraries hand out."""

from __future__ import annotations

import difflib
from collections import OrderedDict, UserDict
from collections.abc import Callable, Mapping
from dataclasses import make_dataclass
from functools import cache
from typing import Any


def _batch_encoding(fields: Mapping[str, Any]) -> Any:
    from transformers import BatchEncoding

    return BatchEncoding(dict(fields))


@cache
def _record(names: tuple[str, ...]) -> Any:
    return make_dataclass("Batch", names)


def _dataclass(fields: Mapping[str, Any]) -> Any:
    return _record(tuple(fields))(**fields)


CONTAINERS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "dict": dict,
    "OrderedDict": OrderedDict,
    "UserDict": lambda fields: UserDict(dict(fields)),
    "BatchEncoding": _batch_encoding,
    "dataclass": _dataclass,
    "tuple": lambda fields: tuple(fields.values()),
    "list": lambda fields: list(fields.values()),
    "nested": lambda fields: {
        "inputs": {name: value for name, value in fields.items() if name != "labels"},
        **({"labels": fields["labels"]} if "labels" in fields else {}),
    },
}
"""By name: from the fields of a batch to the batch. ``nested`` keeps the labels beside a dict of all others."""


def contained(batch: Any, container: str) -> Any:
    """The fields of a batch in another container; what is no dict stays as it is."""
    return CONTAINERS[container](batch) if isinstance(batch, dict) else batch


def check_containers(containers: tuple[str, ...]) -> None:
    """Refuse a container that there is not.

    Raises:
        ValueError: naming the nearest one.
    """
    if isinstance(containers, str) or not containers:
        raise ValueError(f"containers={containers!r}; expected a tuple of {', '.join(CONTAINERS)}")
    for name in containers:
        if name not in CONTAINERS:
            near = difflib.get_close_matches(str(name), CONTAINERS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"container {name!r} is none of {', '.join(CONTAINERS)}{hint}")
