"""Parts of a container or an object, one level deep, and names of values in messages."""

from __future__ import annotations

import array
import sys
import types
from collections import ChainMap, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from pytest_evalcheck.expectations.comparison import show

_CONTAINERS: dict[str, tuple[type, ...]] = {
    "mapping": (dict,),
    "user container": (UserDict, UserList),
    "sequence": (list, tuple, deque),
    "set": (set, frozenset),
    "buffer": (bytearray, array.array),
}
_STANDARD = frozenset(sys.stdlib_module_names) - {"__main__"}


class Entry(NamedTuple):
    """One value inside a container or an object, and how it is reached."""

    how: str
    """``item``, ``attribute``, ``member`` of a set, or ``store``: what a UserDict wraps, which is not entered."""
    key: Any
    value: Any

    def path_after(self, path: str) -> str:
        """The path of this entry, where ``path`` is that of its container."""
        if self.how == "item":
            return f"{path}[{self.key!r}]"
        return f"{path}{{{show(self.key)}}}" if self.how == "member" else f"{path}.{self.key}"


def kind_of(value: Any) -> str:
    """Return how to compare a value: as a tensor, an array, a container ..., by value (plain) or identity (opaque)."""
    cls: Any = type(value)
    return _kind(cls)


@cache
def _kind(cls: type) -> str:
    torch = sys.modules.get("torch")
    if _is_plain(cls):
        return "plain"
    if issubclass(cls, (type, types.ModuleType)) or (torch is not None and issubclass(cls, torch.nn.Module)):
        return "opaque"
    if hasattr(cls, "untyped_storage") and hasattr(cls, "detach"):
        return "tensor"
    if hasattr(cls, "__array_interface__") and hasattr(cls, "strides") and cls.__hash__ is None:
        return "array"
    for kind, bases in _CONTAINERS.items():
        if issubclass(cls, bases):
            return "fields" if kind == "sequence" and hasattr(cls, "_fields") else kind
    if cls.__module__.partition(".")[0] in _STANDARD and not issubclass(cls, (types.SimpleNamespace, ChainMap)):
        return "opaque"
    return "object"


def _is_plain(cls: type) -> bool:
    """Return whether equal objects of a class are interchangeable: hashed by their content, and without parts."""
    if cls in (type(None), type(...), type(NotImplemented), slice):  # before Python 3.12 a slice has no hash
        return True
    package, hashed = cls.__module__.partition(".")[0], cls.__hash__ is not None
    if package == "torch":
        return cls.__name__ in ("Size", "device", "dtype")
    if package == "numpy":
        return hashed and hasattr(cls, "itemsize")
    by_content = hashed and any("__eq__" in vars(base) for base in cls.__mro__[:-1])
    return by_content and package in _STANDARD and not issubclass(cls, (tuple, frozenset))


def entries(value: Any) -> list[Entry]:
    """The entries of a value; none for what has no parts, and for modules, classes and functions."""
    kind = kind_of(value)
    if kind in ("plain", "opaque", "buffer"):
        return []
    if kind == "tensor" and hasattr(value, "__tensor_flatten__"):
        return []  # the attributes of a wrapper subclass are its values and its own caches
    if kind == "object" and hasattr(type(value), "__array__"):
        return _contents(value)
    if kind == "fields":
        return [Entry("attribute", name, held) for name, held in zip(value._fields, value, strict=True)]
    how = "member" if kind == "set" else "item"
    attributes = _attributes(value)
    if kind == "user container":
        attributes = [entry._replace(how="store") if entry.key == "data" else entry for entry in attributes]
    return [*(Entry(how, key, held) for key, held in _items(value, kind)), *attributes]


def _contents(value: Any) -> list[Entry]:
    """Return the values of a table and of its axes as texts: its attributes are also caches that reading fills."""
    import numpy

    parts = [("values", value), *((f"axes[{i}]", axis) for i, axis in enumerate(getattr(value, "axes", ())))]
    return [Entry("attribute", name, repr(numpy.asarray(part).tolist())) for name, part in parts]


def _items(value: Any, kind: str) -> Iterable[tuple[Any, Any]]:
    """Keys and values. The methods of the base class are called, as a subclass may override them."""
    if kind == "mapping":  # dict.items does not follow the order of an OrderedDict
        return OrderedDict.items(value) if isinstance(value, OrderedDict) else dict.items(value)
    if kind == "sequence":
        bases: tuple[Any, ...] = (list, tuple, deque)
        return enumerate(next(base.__iter__(value) for base in bases if isinstance(value, base)))
    if kind == "set":
        return ((member, member) for member in value)
    if kind == "user container":
        store = getattr(value, "data", ())
        return store.items() if isinstance(store, dict) else enumerate(store)
    return enumerate(value.reshape(-1).tolist()) if kind == "array" and value.dtype.kind == "O" else ()


def are_same(a: Any, b: Any) -> bool:
    """Return whether two values are the same object, or equal plain values of the same type."""
    if a is b:
        return True
    if type(a) is not type(b) or kind_of(a) != "plain":
        return False
    if isinstance(a, (float, complex)):
        return repr(a) == repr(b)  # NaN is NaN, and 0.0 is not -0.0
    try:
        return bool(a == b)
    except Exception:
        return False


def is_sequence(value: Any) -> bool:
    """Return whether the keys of a container are indices."""
    return isinstance(value, (list, tuple, deque, UserList))


def format_value(value: Any) -> str:
    """A value in a message: itself if it is plain, else its type, with the dtype and shape of a tensor."""
    kind = kind_of(value)
    if kind in ("tensor", "array"):
        name = type(value).__name__.lower() if kind == "tensor" else "array"
        shape = "ragged rows" if getattr(value, "is_nested", False) else f"shape {tuple(value.shape)}"
        return f"{with_article(name)} of {str(value.dtype).removeprefix('torch.')} and {shape}"
    return show(value) if kind == "plain" else with_article(type(value).__name__)


def with_article(name: str) -> str:
    """``a list``, ``an Output``."""
    return f"{'an' if name[:1] in 'aeioAEIO' else 'a'} {name}"


def _attributes(value: Any) -> list[Entry]:
    attributes = getattr(value, "__dict__", None)
    found = [Entry("attribute", *item) for item in attributes.items()] if isinstance(attributes, dict) else []
    cls: Any = type(value)
    for shown, name in _slot_names(cls):
        try:
            found.append(Entry("attribute", shown, object.__getattribute__(value, name)))
        except AttributeError:
            continue
    return found


@cache
def _slot_names(cls: type) -> list[tuple[str, str]]:
    """The names in ``__slots__``, as they are written and as they are stored."""
    found = [("default_factory", "default_factory")] if issubclass(cls, defaultdict) else []
    for base in cls.__mro__:
        names = base.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            private = name[:2] == "__" and name[-2:] != "__"
            if name not in ("__dict__", "__weakref__"):
                found.append((name, f"_{base.__name__.lstrip('_')}{name}" if private else name))
    return found
