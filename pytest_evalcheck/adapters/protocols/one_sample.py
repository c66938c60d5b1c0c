"""Metrics that are fed with one sample a call, such as ``update(y_true, y_pred)`` of two numbers."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any

from pytest_evalcheck.adapters.protocols.collecting import count_rows
from pytest_evalcheck.expectations.call_log import called

_VALUES = frozenset(["bool", "int", "float", "complex", "str", "Number", "Real"])
_PARTS_OF_A_VALUE = frozenset(["dict", "Dict", "Mapping", "None", "NoneType", "Optional", "Union"])
"""Types that an annotation of one sample may name beside a value: a probability for each label, or nothing."""


DESCRIBED = ("__name__", "__doc__", "__annotations__")
"""Attributes that a function around one of a library copies from it; by its module, which is ours, it is no code
under test."""


def by_sample(feed: Callable[..., Any], listed: Listed | None = None) -> Callable[..., None]:
    """Return a function of a batch that calls ``feed`` for each sample, with Python's own numbers.

    ``listed`` has the values of a function of one sample; it keeps none of a batch that is rejected.

    An argument without rows, such as an option, is given to every call.
    """
    if is_by_sample(feed):
        return feed

    @functools.wraps(feed, assigned=DESCRIBED)
    def update(*args: Any, **kwargs: Any) -> None:
        counts = {count for value in (*args, *kwargs.values()) if (count := count_rows(value)) is not None}
        if len(counts) > 1:
            raise ValueError(f"arguments of {' and '.join(map(str, sorted(counts)))} samples")
        before = listed.count if listed is not None else 0
        try:
            for index in range(counts.pop() if counts else 1):
                named = {name: _sample(value, index) for name, value in kwargs.items()}
                called(feed, *(_sample(value, index) for value in args), **named)
        except BaseException:
            if listed is not None:  # a batch that is rejected leaves nothing
                listed.forget(before)
            raise

    update.of_one_sample = True  # type: ignore[attr-defined]
    return update


def is_by_sample(feed: Callable[..., Any]) -> bool:
    """Return whether `by_sample` has made it."""
    return getattr(feed, "of_one_sample", False) is True


class Listed:
    """The values of a function of one sample, one for each."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._values: list[Any] = []

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Call the function for one sample."""
        self._values.append(called(self._function, *args, **kwargs))

    @property
    def count(self) -> int:
        """Number of values."""
        return len(self._values)

    def forget(self, count: int) -> None:
        """Keep so many values, the first ones."""
        del self._values[count:]

    def compute(self) -> list[Any]:
        """The values so far; those of its own that a caller writes into stay as they are."""
        return copy.deepcopy(self._values)


def takes_one_sample(parameters: Sequence[Parameter]) -> bool:
    """Return whether the annotations of the parameters that must be given say that each is one value.

    >>> import inspect
    >>> def update(y_true: bool, y_pred: "bool | float | dict[bool, float]", w=1.0): ...
    >>> takes_one_sample([*inspect.signature(update).parameters.values()])
    True
    """
    required = [each for each in parameters if each.default is each.empty]
    return bool(required) and all(map(_is_one_value, required))


def _is_one_value(parameter: Parameter) -> bool:
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else str(annotation)
    if isinstance(annotation, type) and not getattr(annotation, "__args__", ()):
        text = annotation.__name__
    outside = re.sub(r"\b(dict|Dict|Mapping)\[[^\[\]]*\]", r"\1", text)  # what is in a mapping is of no interest
    names = {name.rpartition(".")[2] for name in re.findall(r"[\w.]+", outside)}
    return bool(names & _VALUES) and names <= _VALUES | _PARTS_OF_A_VALUE


def _sample(value: Any, index: int) -> Any:
    if count_rows(value) is None:
        return value
    one = value[index]
    return one.item() if hasattr(one, "item") and not getattr(one, "shape", (1,)) else one
