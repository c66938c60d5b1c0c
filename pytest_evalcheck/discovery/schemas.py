"""The form of an argument that an example has shown: numbers or texts, their shape, dtype and range."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Container = Literal[
    "tensor", "array", "list", "number", "texts", "text lists", "nested lists", "fields", "mappings", "objects"
]


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
    """The texts per row of lists of texts, or lists of texts per row, or 0 where the rows differ."""

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

    @classmethod
    def of(cls, value: Any) -> Schema:
        """The schema of an argument."""
        if getattr(getattr(value, "dtype", None), "kind", "") in ("U", "O"):  # an array of texts
            value = value.tolist()
        value = [value] if isinstance(value, str) else value
        rows = [*value] if isinstance(value, (list, tuple)) else []
        if rows and all(isinstance(each, str) for each in rows):
            return cls(container="texts", shape=(len(rows),), values=rows)
        if rows and all(_is_texts(each) for each in rows):
            values = [[*each] for each in rows]
            return cls(container="text lists", shape=(len(rows),), values=values, width=_width(rows))
        if rows and all(isinstance(each, (list, tuple)) and each and all(map(_is_texts, each)) for each in rows):
            return cls(container="nested lists", shape=(len(rows),), values=rows, width=_width(rows))
        if rows and all(isinstance(each, Mapping) for each in rows):
            plain = all(isinstance(number, (bool, int, float)) for each in rows for number in each.values())
            return cls(container="mappings", shape=(len(rows),), values=rows) if plain else cls(container="objects")
        if isinstance(value, Mapping) and value and all(isinstance(name, str) for name in value):
            return cls(container="fields", fields=tuple((name, cls.of(each)) for name, each in value.items()))
        array = _as_array(value)
        return cls(container="objects") if array is None else cls._from_array(value, array)

    @classmethod
    def _from_array(cls, value: Any, array: Any) -> Schema:
        kinds: dict[str, Any] = {"f": "float", "i": "int", "u": "int", "b": "bool"}
        container: Container = "tensor" if hasattr(value, "detach") else "array" if hasattr(value, "dtype") else "list"
        numbers = array.astype(float)
        sums = numbers.sum(axis=1) if array.ndim > 1 and array.size and array.dtype.kind == "f" else None
        return cls(
            container="number" if container == "list" and not array.shape else container,
            kind=kinds[array.dtype.kind],
            shape=tuple(array.shape),
            low=float(numbers.min()) if array.size else 0.0,
            high=float(numbers.max()) if array.size else 0.0,
            distribution=sums is not None and bool(abs(sums - 1).max() < 0.02),
            values=_written(array) if array.size <= 400 else None,
        )


def _written(array: Any) -> Any:
    """Nested lists, of floats in as few digits as their dtype needs."""
    if array.dtype.kind != "f":
        return array.tolist()
    return [_written(row) for row in array] if array.shape else float(str(array))


def _width(rows: list[Any]) -> int:
    return len(rows[0]) if len({*map(len, rows)}) == 1 else 0


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
