"""Values of a watched call as plain JSON: bounded, without objects, and read back without running anything."""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Mapping
from typing import Any

from pytest_evalcheck.errors import UsageError

MOST_NUMBERS = 512
"""Numbers of an array that are kept; of more, whole rows from its head, and its shape and range."""
MOST_ENTRIES = 64
MOST_CHARACTERS = 400
"""A longer text is cut, and says so."""
_DEPTH = 8


def encoded(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON. What has no form there is ``{"opaque": its class}``.

    Nothing of a class that is not known here is called: watching must not change what it watches.
    """
    kind = type(value)
    if value is None or kind in (bool, int):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is str:
        return value if len(value) <= MOST_CHARACTERS else {"text": value[:MOST_CHARACTERS], "characters": len(value)}
    if depth > _DEPTH:
        return _opaque(value)
    if kind in (list, tuple, set, frozenset):
        parts = [encoded(each, depth + 1) for each in list(value)[:MOST_ENTRIES]]
        if kind is list and len(value) <= MOST_ENTRIES:
            return parts
        return {kind.__name__: parts, "length": len(value)}
    if isinstance(value, Mapping) and kind.__module__ in ("builtins", "collections"):
        named = all(isinstance(name, str) for name in value)
        pairs = [(name, encoded(each, depth + 1)) for name, each in list(value.items())[:MOST_ENTRIES]]
        return {"dict": dict(pairs)} if named else {"pairs": [[encoded(name, depth + 1), each] for name, each in pairs]}
    if _is_array(value):
        return _array(value)
    if isinstance(value, enum.Enum):
        return {"name": f"{kind.__module__}:{kind.__qualname__}.{value.name}"}
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        home = vars(sys.modules.get(str(value.__module__), sys))
        own = getattr(value, "__name__", "")
        return {"name": f"{value.__module__}:{own if home.get(own) is value else value.__qualname__}"}
    if kind.__module__ == "torch" and kind.__name__ in ("dtype", "device"):
        return {"torch": str(value)}
    return _opaque(value)


def decoded(value: Any) -> Any:
    """Return what `encoded` has written; an array is of NumPy or torch as it was, with the rows that were kept.

    Raises:
        UsageError: for what it does not write, and for what it could not keep.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [decoded(each) for each in value]
    if not isinstance(value, dict):
        raise UsageError(f"{value!r} is no value of a corpus")
    if "float" in value:
        return float(value["float"])
    if "text" in value:
        return str(value["text"])
    if "dict" in value:
        return {str(name): decoded(each) for name, each in dict(value["dict"]).items()}
    if "pairs" in value:
        return {decoded(name): decoded(each) for name, each in value["pairs"]}
    for name, made in (("list", list), ("tuple", tuple), ("set", set), ("frozenset", frozenset)):
        if name in value:
            return made(decoded(each) for each in value[name])
    if "array" in value:
        return _restored(value)
    if "torch" in value:
        import torch

        text = str(value["torch"])
        return _dtype(text) if text.startswith("torch.") else torch.device("cpu")
    what = next(iter(value.items()), ("nothing", ""))
    raise UsageError(f"a value was not kept: {what[0]} {what[1]}")


def _is_array(value: Any) -> bool:
    home = type(value).__module__.partition(".")[0]
    return home in ("torch", "numpy") and hasattr(value, "shape") and hasattr(value, "dtype")


def _array(value: Any) -> Any:
    """Return an array with its first rows; one without data, such as on the meta device, has its shape alone."""
    import numpy

    home = type(value).__module__.partition(".")[0]
    written: dict[str, Any] = {"array": home, "dtype": str(value.dtype), "shape": list(value.shape)}
    try:
        if home == "torch":
            import torch

            with torch.no_grad():
                plain = value.detach().cpu()
                plain = plain.double() if plain.is_floating_point() else plain
                numbers = plain.numpy()
        else:
            numbers = numpy.asarray(value)
        if numbers.dtype.kind in "US":
            return {"list": [str(each) for each in numbers.reshape(-1)[:MOST_ENTRIES]], "length": int(numbers.size)}
        if numbers.dtype.kind not in "biuf":
            return written
    except Exception:  # sparse, quantised, fake or of a subclass that refuses
        return written
    if numbers.size:
        finite = numbers[numpy.isfinite(numbers)] if numbers.dtype.kind == "f" else numbers
        written |= {"low": float(finite.min()), "high": float(finite.max())} if finite.size else {}
    kept = numbers
    if numbers.size > MOST_NUMBERS and numbers.ndim:
        kept = numbers[: MOST_NUMBERS // max(1, numbers[0].size)]
    return written | {"rows": _rows(kept)}


def _rows(numbers: Any) -> Any:
    if numbers.ndim:
        return [_rows(row) for row in numbers]
    value = numbers.item()
    return value if not isinstance(value, float) or math.isfinite(value) else {"float": repr(value)}


def _restored(value: Mapping[str, Any]) -> Any:
    import numpy

    if "rows" not in value:
        raise UsageError(f"the numbers of an array of shape {value.get('shape')} were not kept")
    shape = [int(each) for each in value["shape"]]
    made = numpy.array(_numbers(value["rows"]))
    made = made.reshape((-1, *shape[1:])) if shape else made.reshape(())
    if value["array"] == "numpy":
        return made.astype(str(value["dtype"]))
    import torch

    return torch.as_tensor(made).to(_dtype(str(value["dtype"])))


def _dtype(text: str) -> Any:
    import torch

    found = getattr(torch, text.removeprefix("torch."), None)
    if not isinstance(found, torch.dtype):  # another name of torch may be a function
        raise UsageError(f"{text} is no dtype of torch")
    return found


def _numbers(rows: Any) -> Any:
    if isinstance(rows, list):
        return [_numbers(row) for row in rows]
    return float(rows["float"]) if isinstance(rows, dict) else rows


def _opaque(value: Any) -> Any:
    return {"opaque": f"{type(value).__module__}.{type(value).__qualname__}"}
