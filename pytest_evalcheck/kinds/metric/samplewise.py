"""Results of several parts: those with one entry per sample, and mappings and tuples of numbers."""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

from pytest_evalcheck.expectations.comparison import (
    attributes,
    constant_numbers,
    numbers_of,
    only_scalars,
    plain,
)
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.case import fixed_up_to
from pytest_evalcheck.kinds.common.subject import Rows
from pytest_evalcheck.kinds.metric.record import Metric
from pytest_evalcheck.kinds.metric.subject import LiveMetric, MetricSubject
from pytest_evalcheck.strategies.samples import Bulk

Path = tuple[Any, ...]
"""Names and places of the parts of a result, from the outside."""
_MANY = 12


def unordered(value: Any, count: int, fixed: Collection[Path] = ()) -> Any:
    """The value with its entries per sample sorted: what belongs to one sample stays together.

    An entry per sample is one of a list, an array or a tensor of the length ``count``, also within tuples, mappings and
    lists of another length, but not at the ``fixed`` paths. A tuple is a result of several parts, never one with an
    entry per sample.

    >>> unordered((0.5, [3, 1, 2], {"id": [30, 10, 20]}), 3)
    (0.5, [1, 2, 3], {'id': [10, 20, 30]})
    """
    value = _opened(value)
    columns = [_listed(column) for _, column in _columns(value, count, fixed)]
    rows = sorted(zip(*columns, strict=True), key=repr)
    replaced = iter([list(column) for column in zip(*rows, strict=True)] if rows else columns)
    return _rebuilt(value, count, replaced, fixed)


def entries_per_sample(value: Any, count: int) -> list[list[Any]]:
    """The entries per sample of a value, a list for each list, array or tensor of the length ``count`` in it.

    >>> entries_per_sample((0.5, [3, 1, 2], {"id": [30, 10, 20]}), 3)
    [[3, 1, 2], [30, 10, 20]]
    """
    return [_listed(column) for _, column in _columns(_opened(value), count)]


def is_per_sample(value: Any, count: int) -> bool:
    """Return whether every number in a value belongs to one of ``count`` samples.

    >>> is_per_sample({"scores": [0.5, 1.0], "by": "words"}, 2), is_per_sample((0.75, [0.5, 1.0]), 2)
    (True, False)
    """
    inside = _opened(value)
    if _per_sample(inside, count) or isinstance(inside, str):
        return True
    parts = [*_parts_of(inside)]
    return bool(parts) and all(is_per_sample(each, count) for _, each in parts)


def fixed_paths(fewer: Any, count: int) -> set[Path]:
    """Return the paths of lists and arrays of the length ``count`` in the value of another number of samples.

    They have no entry per sample, such as the four precisions of a BLEU score.

    >>> fixed_paths({"precisions": [0.9, 0.8, 0.7, 0.6], "scores": [0.5, 0.25, 0.75]}, 4)
    {('precisions',)}
    """
    return {path for path, _ in _columns(_opened(fewer), count)}


def _opened(value: Any, most: int = 4) -> Any:
    """Return a value whose records, also within tuples and mappings, are mappings of their fields or attributes."""
    inside = plain(value) if is_dataclass(value) else value
    if not isinstance(inside, Mapping):
        inside = {} if hasattr(value, "shape") else attributes(value)
    if inside and most:
        return {name: _opened(each, most - 1) for name, each in inside.items()}
    return tuple(_opened(each, most) for each in value) if type(value) is tuple else value


def _per_sample(value: Any, count: int) -> bool:
    if isinstance(value, list):
        return len(value) == count
    shape = getattr(value, "shape", None)
    return shape is not None and tuple(shape[:1]) == (count,)


def _listed(column: Any) -> list[Any]:
    held = column if isinstance(column, list) else plain(column)
    found: list[Any] = held.tolist() if hasattr(held, "tolist") else [*column]  # an array of objects stays what it is
    return [each.tolist() if hasattr(each, "tolist") else each for each in found]


def _columns(value: Any, count: int, fixed: Collection[Path] = (), path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if _per_sample(value, count):
        if path not in fixed:
            yield path, value
    else:
        for name, each in _parts_of(value):
            yield from _columns(each, count, fixed, (*path, name))


def _parts_of(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the parts of a mapping, a tuple or a list by name or place; none of one of plain numbers."""
    if isinstance(value, Mapping):
        return value.items()
    return enumerate(value) if isinstance(value, (tuple, list)) and not only_scalars(value) else ()


def _rebuilt(value: Any, count: int, columns: Iterator[Any], fixed: Collection[Path], path: Path = ()) -> Any:
    if _per_sample(value, count):
        return value if path in fixed else next(columns)
    parts = {name: _rebuilt(each, count, columns, fixed, (*path, name)) for name, each in _parts_of(value)}
    if isinstance(value, Mapping):
        return parts
    made = list if isinstance(value, list) else tuple
    return made(parts.values()) if parts else value


def constant_entries(metric: MetricSubject, values: Sequence[Any]) -> dict[str, float]:
    """Return the numbers that are the same in ``values`` and for all other samples, where others are not, by name.

    One that is always -1 or NaN says that there is no value. It is returned where a metric of the same class that is
    built without arguments has one.
    """
    if not constant_numbers(values):
        return {}
    streams = list(_streams(metric))
    found = constant_numbers([*values, *map(metric.scored, streams)])
    absent = {name for name, number in found.items() if math.isnan(number) or number == -1}
    if absent:
        usual = [attempt("a metric without arguments", _usual_value, metric, rows) for rows in streams]
        known = set().union(*map(numbers_of, usual)) - constant_numbers(usual).keys()
        absent -= known
    options = _options(metric) if found else set()
    return {name: number for name, number in found.items() if name not in absent and number not in options}


def _options(metric: MetricSubject) -> set[float]:
    """Return the numbers that a call is given beside samples, such as a nominal level: a result may repeat them."""
    given, function = metric.arguments(fixed_up_to(metric.inputs, _MANY)), metric.build().function
    parameters = inspect.signature(function).parameters.values() if function is not None else ()
    values = (*given.args, *given.kwargs.values(), *(parameter.default for parameter in parameters))
    return {value for value in values if type(value) in (int, float)}


def _streams(metric: MetricSubject) -> Iterator[Rows]:
    """Samples of different numbers and kinds, with right and with wrong predictions."""
    inputs, few = metric.inputs, max(1, metric.inputs.min_samples)
    rows = fixed_up_to(inputs, _MANY)
    yield from (rows, rows[-few:], rows[: few + 1])
    contrast = list(inputs.contrast)
    for change in (inputs.right, inputs.wrong):
        yield [change(row) for row in contrast] if change is not None else contrast
    if inputs.bulk is not None:
        yield list(inputs.bulk(Bulk(seed=0, rows=4 * _MANY)))


def _usual_value(metric: MetricSubject, rows: Rows) -> Any:
    made = type(metric.build().source)()
    return LiveMetric(Metric.of(made), metric).update(rows).compute()
