"""Results that have one entry per sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_evalcheck.expectations.comparison import plain


def unordered(value: Any, count: int) -> Any:
    """The value with its entries per sample sorted: what belongs to one sample stays together.

    An entry per sample is one of a list, an array or a tensor of the length ``count``, also within tuples, mappings and
    lists of another length. A tuple is a result of several parts, never one with an entry per sample.

    >>> unordered((0.5, [3, 1, 2], {"id": [30, 10, 20]}), 3)
    (0.5, [1, 2, 3], {'id': [10, 20, 30]})
    """
    columns = entries_per_sample(value, count)
    rows = sorted(zip(*columns, strict=True), key=repr)
    replaced = iter([list(column) for column in zip(*rows, strict=True)] if rows else columns)
    return _rebuilt(value, count, replaced)


def entries_per_sample(value: Any, count: int) -> list[list[Any]]:
    """The entries per sample of a value, a list for each list, array or tensor of the length ``count`` in it.

    >>> entries_per_sample((0.5, [3, 1, 2], {"id": [30, 10, 20]}), 3)
    [[3, 1, 2], [30, 10, 20]]
    """
    return [_listed(column) for column in _columns(value, count)]


def _per_sample(value: Any, count: int) -> bool:
    if isinstance(value, list):
        return len(value) == count
    shape = getattr(value, "shape", None)
    return shape is not None and tuple(shape[:1]) == (count,)


def _listed(column: Any) -> list[Any]:
    found: list[Any] = column if isinstance(column, list) else plain(column).tolist()
    return [each.tolist() if hasattr(each, "tolist") else each for each in found]


def _columns(value: Any, count: int) -> Iterator[Any]:
    if _per_sample(value, count):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _columns(each, count)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _columns(each, count)


def _rebuilt(value: Any, count: int, columns: Iterator[Any]) -> Any:
    if _per_sample(value, count):
        return next(columns)
    if isinstance(value, (tuple, list)):
        parts = [_rebuilt(each, count, columns) for each in value]
        return parts if isinstance(value, list) else tuple(parts)
    if isinstance(value, Mapping):
        return {name: _rebuilt(each, count, columns) for name, each in value.items()}
    return value
