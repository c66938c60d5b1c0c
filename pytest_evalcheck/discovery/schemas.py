"""The form of an argument that an example has shown: numbers or texts, their shape, dtype and range."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Container = Literal["tensor", "array", "list", "number", "texts", "text lists", "fields", "mappings", "objects"]


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The form of one argument."""

    container: Container
    kind: Literal["float", "int", "bool", ""] = ""
    shape: tuple[int, ...] = ()
    low: float = 0.0
    high: float = 0.0
    distribution: bool = False
    """True if the numbers along the second dimension sum to 1."""
    values: Any = None
    """The rows as nested lists."""
    fields: tuple[tuple[str, Schema], ...] = ()
    """The arguments of a dict: each by its name."""
    width: int = 0
    """The texts per row of lists of texts, or 0 where the rows differ."""

    @property
    def rows(self) -> int:
        """Number of rows; 0 for a single number."""
        return self.shape[0] if self.shape else 0

    @property
    def count(self) -> int:
        """Number of its numbers."""
        return math.prod(self.shape)

    @property
    def numbers(self) -> bool:
        """True for an array of numbers."""
        return bool(self.kind) and bool(self.shape)

    @property
    def labels(self) -> bool:
        """True if it holds only 0 and 1, and no fractions."""
        return self.numbers and {0, 1} >= {self.low, self.high} and self.kind != "float"

    def has_form_of(self, other: Schema, *, loosely: bool = False) -> bool:
        """Return whether container and dimensions are those of another one; distributions fit distributions."""
        if self.fields or other.fields:
            mine, others = dict(self.fields), dict(other.fields)
            return mine.keys() == others.keys() and all(mine[n].has_form_of(others[n], loosely=loosely) for n in mine)
        if not (self.numbers and other.numbers):
            return self.container == other.container
        deeper = len(self.shape) - len(other.shape)
        same = deeper == 0 or (loosely and deeper == 1)
        return same and self.container == other.container and self.distribution >= other.distribution

    @classmethod
    def of(cls, value: Any) -> Schema:
        """The schema of an argument."""
        if getattr(getattr(value, "dtype", None), "kind", "") in ("U", "O"):  # an array of texts
            value = value.tolist()
        if isinstance(value, str):
            return cls(container="texts", shape=(1,), values=[value])
        if isinstance(value, (list, tuple)) and value and all(isinstance(each, str) for each in value):
            return cls(container="texts", shape=(len(value),), values=list(value))
        if isinstance(value, (list, tuple)) and value and all(_is_texts(each) for each in value):
            widths = {len(each) for each in value}
            width = widths.pop() if len(widths) == 1 else 0
            return cls(container="text lists", shape=(len(value),), values=[list(v) for v in value], width=width)
        if isinstance(value, Mapping) and value and all(isinstance(name, str) for name in value):
            return cls(container="fields", fields=tuple((name, cls.of(each)) for name, each in value.items()))
        if isinstance(value, (list, tuple)) and value and all(isinstance(each, Mapping) for each in value):
            plain = all(isinstance(number, (bool, int, float)) for each in value for number in each.values())
            return (
                cls(container="mappings", shape=(len(value),), values=list(value))
                if plain
                else cls(container="objects")
            )
        array = _as_array(value)
        if array is None:
            return cls(container="objects")
        return cls._from_array(value, array)

    @classmethod
    def _from_array(cls, value: Any, array: Any) -> Schema:
        kinds = {"f": "float", "i": "int", "u": "int", "b": "bool"}
        kind: Any = kinds.get(array.dtype.kind, "")
        if not kind:
            return cls(container="objects")
        container: Container = "list"
        if hasattr(value, "detach"):
            container = "tensor"
        elif hasattr(value, "dtype"):
            container = "array"
        elif not array.shape:
            container = "number"
        numbers = array.astype(float)
        sums = numbers.sum(axis=1) if array.ndim > 1 and array.size else None
        return cls(
            container=container,
            kind=kind,
            shape=tuple(array.shape),
            low=float(numbers.min()) if array.size else 0.0,
            high=float(numbers.max()) if array.size else 0.0,
            distribution=sums is not None and bool(abs(sums - 1).max() < 0.02) and kind == "float",
            values=_written(array) if array.size <= 400 else None,
        )


def _written(array: Any) -> Any:
    """Nested lists, of floats in as few digits as their dtype needs."""
    if array.dtype.kind != "f":
        return array.tolist()
    return [_written(row) for row in array] if array.shape else float(str(array))


def _is_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(each, str) for each in value)


def _as_array(value: Any) -> Any:
    import numpy as np

    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
            value = value.float() if str(value.dtype) in ("torch.bfloat16", "torch.float16") else value
        array = np.asarray(value)
    except Exception:  # ragged lists, sparse tensors, objects of a library
        return None
    return array if array.dtype.kind in "fiub" else None
