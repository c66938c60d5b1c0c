"""Values of a watched call as plain JSON: bounded, without objects, and read back without running anything."""

from __future__ import annotations

import enum
import importlib
import inspect
import itertools
import json
import math
import re
import sys
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from operator import attrgetter
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType
from typing import Any

from pytest_evalcheck.errors import UsageError

MOST_NUMBERS = 512
"""Numbers of an array that are kept; of more, whole rows from its head, and its shape and range."""
_MOST_RESTORED = 2**20
"""Numbers of an array that is restored in its whole shape."""
MOST_ENTRIES = 64
MOST_CHARACTERS = 400
"""A longer text is cut, and says so."""
_DEPTH = 8
TABLES = ("frame", "series")
"""Tables of pandas, by their columns."""
INDEX = "(index)"
"""The column of a table that has the names of its rows, where these are not their places; its name comes after it."""
_TIMES = {"datetime": "datetime", "date": "datetime", "Timestamp": "pandas", "NaTType": "pandas"}
"""By the class of a time: the module that has it."""


_SECRET = re.compile(
    r"(^|_)(api_?keys?|secrets?|password|passwd|passphrase|credentials?|private_?key|access_?key|auth(orization)?)(_|$)",
    re.I,
)
"""Words in the name of an argument or a key whose text is not stored."""
_TOKEN = re.compile(r"(^|_)(token|key|cookie)$", re.IGNORECASE)
"""Last words of names whose text is not stored where it may be a secret: long, and without a space."""
_SECRET_TEXT = re.compile(
    r"\b(sk|pk|rk|ghp|gho|ghs|glpat|xox[abp]|hf|AKIA|ASIA|AIza)[-_A-Za-z0-9]{16,}|\beyJ[\w-]{10,}\.[\w-]{10,}"
    r"|-----BEGIN|\bBearer\s+\S{16,}|://[^/\s:@]+:[^/\s:@]+@"
)
"""Texts that are secrets by their form."""
_MOST_TOKEN = 16
Made = Callable[[Any], dict[str, Any] | None]
makers: dict[str, Callable[[str, str], Any]] = {}
"""By form: what makes a value of it that stands elsewhere in a corpus, by the entry and the name there."""


def _no_making(_: Any) -> None:
    """Know of no object how it was made."""


def noted(value: Any, name: str = "", made: Made = _no_making) -> Any:
    """Return a value as `encoded`, or its class where reading it raises: what is watched must not be ended by that."""
    try:
        return encoded(value, name=name, made=made)
    except Exception:
        return _opaque(value)


def encoded(value: Any, depth: int = 0, name: str = "", made: Made = _no_making, most: int = MOST_CHARACTERS) -> Any:
    """Return a value as JSON. What has no form there is ``{"opaque": its class}``, a secret ``{"secret": its name}``.

    Nothing of a class that is not known here is called: watching must not change what it watches. Of a dataclass or a
    model of fields, the fields are read where they are stored.

    Args:
        value: any object.
        depth: how deep in another value it lies.
        name: the argument or the key that it has there: some names say that a text is a secret.
        made: gives of an object without a form, or of a function, what takes its place, such as the class and the
            arguments that have made it.
        most: characters of a text that are kept.
    """
    kind = type(value)
    if value is None or kind in (bool, int):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is str:
        if _is_secret(name, value):  # four bits of it say that another one is another
            return {"secret": name or "text", "number": zlib.crc32(value.encode(errors="replace")) % 16}
        return value if len(value) <= most else {"text": value[:most], "characters": len(value)}
    if depth > _DEPTH:
        return _opaque(value)
    part = partial(encoded, depth=depth + 1, made=made, most=most)
    if kind in (list, tuple, set, frozenset):
        parts = [part(each, name=name) for each in list(value)[:MOST_ENTRIES]]
        if kind is list and len(value) <= MOST_ENTRIES:
            return parts
        return {kind.__name__: parts, "length": len(value)}
    if isinstance(value, Mapping) and kind.__module__ in ("builtins", "collections"):
        named = all(type(key) is str for key in value)
        pairs = [(key, part(each, name=str(key))) for key, each in list(value.items())[:MOST_ENTRIES]]
        return {"dict": dict(pairs)} if named else {"pairs": [[part(key), each] for key, each in pairs]}
    if _is_array(value):
        return _array(value, name)
    if kind.__module__.partition(".")[0] == "pandas" and kind.__name__ in ("Series", "DataFrame"):
        return _table(value, depth)
    if isinstance(value, enum.Enum):
        return {"name": f"{kind.__module__}:{kind.__qualname__}.{value.name}"}
    if kind.__module__.partition(".")[0] == _TIMES.get(kind.__name__):
        return {"time": value.isoformat(), "of": kind.__name__.replace("NaTType", "Timestamp")}
    if kind is FunctionType and (function := made(value)):
        return function
    if isinstance(value, (type, FunctionType, BuiltinFunctionType)):
        home = vars(sys.modules.get(str(value.__module__), sys))
        own = getattr(value, "__name__", "")
        return {"name": f"{value.__module__}:{own if home.get(own) is value else value.__qualname__}"}
    if kind.__module__ == "torch" and kind.__name__ in ("dtype", "device"):
        return {"torch": str(value)}
    if kind.__module__.startswith("torch.utils.data") and kind.__name__ == "DataLoader":
        return _loader(value, depth)
    fields = fields_of(value)
    if fields is not None and not ((known := made(value)) and "stand_in" in known):
        inside = {key: part(each, name=key) for key, each in fields.items()}
        return {"object": f"{kind.__module__}:{kind.__qualname__}", "fields": inside}
    return made(value) or _opaque(value)


def _table(value: Any, depth: int) -> Any:
    """Return a series or a frame of pandas by its columns; nothing of one whose columns have no names of their own."""
    index = value.index
    is_frame = type(value).__name__ == "DataFrame"
    columns = [*value.items()] if is_frame else [("" if value.name is None else value.name, value)]
    names = [name for name, _ in columns]
    named = all(type(name) is str and not name.startswith(INDEX) for name in names) and len({*names}) == len(names)
    if not named or index.nlevels > 1:
        return _opaque(value)

    def column(part: Any, name: str = "") -> Any:
        return encoded(part.to_numpy() if part.dtype.kind in "biuf" else part.tolist(), depth + 1, name)

    made = {name: column(each, name) for name, each in columns}
    if type(index).__name__ != "RangeIndex" or (index.start, index.step) != (0, 1):
        made[f"{INDEX}{'' if index.name is None else index.name}"] = column(index)
    return {"frame" if is_frame else "series": made}


def made_table(kind: str, columns: Mapping[str, Any]) -> Any:
    """Return a series or a frame of pandas of its columns by name.

    Raises:
        UsageError: where these are no columns of one table, such as after an edit by hand.
    """
    pandas: Any = importlib.import_module("pandas")
    try:
        given = dict(columns)
        key = next((name for name in given if name.startswith(INDEX)), None)
        index = None if key is None else pandas.Index(given.pop(key), name=key.removeprefix(INDEX) or None)
        if kind == "frame":
            return pandas.DataFrame(given, index=index)
        [(name, values)] = given.items()
        return pandas.Series(values, name=name or None, index=index)
    except ValueError as error:
        raise UsageError(f"the columns {', '.join(columns)} make no {kind} of pandas: {error}") from error


def _loader(value: Any, depth: int) -> Any:
    """Return the samples of a loader whose data set is tensors or a list: nothing of any other one is read."""
    kept = value.dataset
    form = f"{type(kept).__module__}.{type(kept).__qualname__}"
    if form == "torch.utils.data.dataset.TensorDataset":
        return {"loader": {"tuple": [encoded(each, depth + 1) for each in kept.tensors], "length": len(kept.tensors)}}
    if type(kept) is list:
        return {"loader": encoded(kept, depth + 1)}
    return _opaque(value)


def _is_secret(name: str, text: str) -> bool:
    long = len(text) >= _MOST_TOKEN and not any(map(str.isspace, text))
    return bool(_SECRET.search(name) or (long and _TOKEN.search(name)) or _SECRET_TEXT.search(text))


def fields_of(value: Any) -> dict[str, Any] | None:
    """Return the stored fields of a dataclass, a model of pydantic or a named tuple; None for anything else."""
    kind = type(value)
    if isinstance(value, tuple):
        names = kind.__dict__.get("_fields", ())
        return dict(zip(names, tuple.__iter__(value), strict=False)) if names else None
    known: Any = vars(kind).get("__dataclass_fields__") or vars(kind).get("__pydantic_fields__")
    if not isinstance(known, dict) or vars(kind).get("__getattribute__") is not None:
        return None
    stored = dict(getattr(value, "__dict__", {}))
    for key in {*known} - {*stored}:
        slot = inspect.getattr_static(kind, key, None)
        if isinstance(slot, MemberDescriptorType):
            with suppress(AttributeError):  # it was never set
                stored[key] = slot.__get__(value, kind)
    names = [key for key, each in known.items() if getattr(each, "init", True) is not False]
    return {key: stored[key] for key in names if key in stored}


def decoded(value: Any, package: str = "") -> Any:
    """Return what `encoded` has written; an array is of NumPy or torch as it was, with the rows that were kept.

    A name, and an object of fields, are read only where they are of ``package``: a corpus is data, and never code.

    Raises:
        UsageError: for what it does not write, and for what it could not keep.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [decoded(each, package) for each in value]
    if not isinstance(value, dict):
        raise UsageError(f"{value!r} is no value of a corpus")
    if "float" in value:
        return float(value["float"])
    if "text" in value:
        return str(value["text"])
    if "secret" in value and "number" in value:
        return f"{value['secret']}-{value['number']}"
    if "dict" in value:
        return {str(name): decoded(each, package) for name, each in dict(value["dict"]).items()}
    if "pairs" in value:
        return {decoded(name, package): decoded(each, package) for name, each in value["pairs"]}
    for name, made in (("list", list), ("tuple", tuple), ("set", set), ("frozenset", frozenset)):
        if name in value:
            return made(decoded(each, package) for each in value[name])
    if "array" in value:
        return _restored(value)
    for kind in TABLES:
        if kind in value:
            return made_table(kind, {str(name): decoded(each, package) for name, each in value[kind].items()})
    if "time" in value and value.get("of") in _TIMES:
        return _time(str(value["time"]), str(value["of"]))
    if "torch" in value:
        import torch

        text = str(value["torch"])
        return _dtype(text) if text.startswith("torch.") else torch.device("cpu")
    if "name" in value and is_of(value["name"], package):
        return named(str(value["name"]))
    if "made" in value and is_of(value["made"], package):
        given = {str(name): decoded(each, package) for name, each in dict(value["arguments"]).items()}
        positional = [given.pop(name) for name in [*given] if name.isdigit()]
        return named(str(value["made"]))(*positional, **given)
    if "object" in value and is_of(value["object"], package):
        fields = {str(name): decoded(each, package) for name, each in dict(value["fields"]).items()}
        try:
            return named(str(value["object"]))(**fields)
        except Exception as error:
            raise UsageError(f"{value['object']} cannot be made of its fields {', '.join(fields)}: {error}") from error
    if "stand_in" in value and is_of(value.get("of"), package):
        return makers["stand_in"](str(value["of"]), str(value["stand_in"]))
    what = next(iter(value.items()), ("nothing", ""))
    raise UsageError(f"a value was not kept: {what[0]} {what[1]}")


def _time(text: str, name: str) -> Any:
    made = getattr(importlib.import_module(_TIMES[name]), name)
    try:
        return made(text) if _TIMES[name] == "pandas" else made.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no {name}: {error}") from error


def is_of(name: Any, package: str) -> bool:
    """Return whether a name such as ``module:path`` is of a package."""
    module, _, path = str(name).partition(":")
    parts = [*module.split("."), *path.split(".")]
    return bool(package) and module.partition(".")[0] == package and all(part.isidentifier() for part in parts)


def named(name: str) -> Any:
    """Return what a name such as ``module:path`` stands for.

    Raises:
        UsageError: where it is not there any more.
    """
    module, _, path = name.partition(":")
    try:
        return attrgetter(path)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise UsageError(f"the corpus names {name}, which is not there any more: {error}") from error


def is_kept(value: Any, package: str = "") -> bool:
    """Return whether all of a value can be read back."""
    if isinstance(value, list):
        return all(is_kept(each, package) for each in value)
    if not isinstance(value, dict):
        return True
    if {"opaque", "loader"} & {*value}:
        return False
    if "secret" in value:
        return "number" in value
    if "stand_in" in value:
        return is_of(value.get("of"), package)
    for key in ("name", "object", "made"):
        if key in value:
            inside: Any = value.get("fields", value.get("arguments", {}))
            if not (is_of(value[key], package) and all(is_kept(each, package) for each in inside.values())):
                return False
            return key != "object" or _takes_its_fields(value, package)
    for key in ("dict", *TABLES):
        if key in value:
            return all(is_kept(each, package) for each in value[key].values())
    parts: Any = next((value[key] for key in ("list", "tuple", "set", "frozenset", "pairs") if key in value), [])
    return all(is_kept(each, package) for each in parts)


def has_form(value: Any, *forms: str) -> bool:
    """Return whether a value as JSON has a part of one of some forms."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (isinstance(value, dict) and not value.keys().isdisjoint(forms)) or any(
        has_form(each, *forms) for each in inside
    )


def _takes_its_fields(value: Any, package: str) -> bool:
    """Return whether the constructor of an object as JSON takes its fields as arguments."""
    try:
        decoded(value, package)
    except UsageError:
        return False
    return True


def is_cut(value: Any) -> bool:
    """Return whether a part of a value was left out, since it was too large."""
    if isinstance(value, list):
        return any(map(is_cut, value))
    if not isinstance(value, dict):
        return False
    if "text" in value:
        return True
    if is_array(value):
        return "rows" not in value or (bool(value["shape"]) and len(value["rows"]) < value["shape"][0])
    for key in ("dict", *TABLES):
        if key in value:
            return any(map(is_cut, value[key].values()))
    if "fields" in value or "arguments" in value:
        inside: Any = value.get("fields", value.get("arguments", {}))
        return any(map(is_cut, inside.values()))
    parts: Any = next((value[key] for key in ("list", "tuple", "set", "frozenset", "pairs") if key in value), [])
    return value.get("length", len(parts)) > len(parts) or any(map(is_cut, parts))


def is_array(value: Any) -> bool:
    """Return whether a value as JSON is an array."""
    return isinstance(value, dict) and "array" in value


def _is_array(value: Any) -> bool:
    return bool(_home(value)) and hasattr(value, "shape") and hasattr(value, "dtype")


def _home(value: Any) -> str:
    """Return the library of an array, that of xarray with its dimensions; empty for anything else."""
    kind = type(value)
    home = kind.__module__.partition(".")[0]
    if home == "xarray" and kind.__name__ == "DataArray":
        return ":".join((home, *dims)) if all(dims := _dimensions(value)) else ""
    return home if home in ("torch", "numpy") and not isinstance(value, type) else ""


def _dimensions(value: Any) -> list[str]:
    """Return the names of dimensions with their coordinates, as in ``["year=", "lat=[10.0, 20.0]"]``, "" for others.

    Arrays are joined by coordinates, so those of the rows are the places of these: two arrays of a batch have the same.
    """
    if any(each.ndim > 1 for each in value.coords.values()):
        return [""]
    found = []
    for place, dim in enumerate(map(str, value.dims)):
        along = value.coords[dim].values if dim in value.coords else None
        if not dim.isidentifier():
            found.append("")
        elif along is None or not place:
            found.append(dim if along is None else f"{dim}=")
        else:
            kept = along.dtype.kind in "iuf" and len(along) <= MOST_ENTRIES
            found.append(f"{dim}={json.dumps(along.tolist())}" if kept else "")
    return found


def _array(value: Any, name: str) -> Any:
    """Return an array with its first rows; one without data, such as on the meta device, has its shape alone."""
    import numpy

    home = _home(value)
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
            if not numbers.shape:
                return encoded(str(value), name=name)
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
    if "rows" not in value:
        raise UsageError(f"the numbers of an array of shape {value.get('shape')} were not kept")
    try:
        shape = tuple(int(each) for each in value["shape"])
        rows = _all_rows(value, shape) if is_cut(value) and math.prod(shape) <= _MOST_RESTORED else value["rows"]
        return made_array(str(value["array"]), str(value["dtype"]), rows, shape)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"the numbers of an array of shape {value.get('shape')} cannot be read: {error}") from error


def _all_rows(value: Mapping[str, Any], shape: tuple[int, ...]) -> list[Any]:
    """Return rows for the whole shape: those that were kept, in turn, or numbers of their range where none was."""
    if value["rows"] or "low" not in value:
        return [*itertools.islice(itertools.cycle(value["rows"]), shape[0])]
    low, high, dtype = value["low"], value["high"], str(value["dtype"])
    return list(drawn(zlib.crc32(repr((dtype, shape, low, high)).encode()), dtype, low, high, shape).tolist())


def drawn(seed: int, dtype: str, low: float, high: float, shape: tuple[int, ...]) -> Any:
    """Return a NumPy array of numbers of a range, whole ones unless the dtype is of floats."""
    import numpy

    generator = numpy.random.RandomState(seed)  # its numbers do not change with the release
    return (
        generator.uniform(low, high, shape) if "float" in dtype else generator.randint(int(low), int(high) + 1, shape)
    )


def made_array(home: str, dtype: str, rows: Any, shape: tuple[int, ...]) -> Any:
    """Return an array of NumPy, torch or xarray of some rows as nested lists, each of the shape ``shape[1:]``."""
    import numpy

    library, *dims = home.split(":")
    made = numpy.array(_numbers(rows))
    made = made.reshape((len(made), *(made.shape[1:] if made.size else shape[1:]))) if shape else made.reshape(())
    if library == "numpy":
        return made.astype(dtype)[()]  # of no dimension it was a number
    if library == "xarray":
        named = [dim.partition("=") for dim in dims]
        coordinates = {dim: json.loads(given) if given else [*range(len(made))] for dim, has, given in named if has}
        names = [dim for dim, *_ in named]
        return importlib.import_module(library).DataArray(made.astype(dtype), dims=names, coords=coordinates)
    import torch

    return torch.as_tensor(made).to(_dtype(dtype))


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
