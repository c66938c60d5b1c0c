"""What is inside a container or an object, one step deep, and how a value is called in a message."""

from __future__ import annotations

import array
import datetime
import decimal
import fractions
import sys
import types
from collections import ChainMap, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pytest_evalcheck.expectations.comparison import show

_ATOMS = frozenset(
    {
        *(bool, int, float, complex, str, bytes, type(None), range, slice, type(...), type(NotImplemented)),
        *(datetime.date, datetime.datetime, datetime.timedelta, decimal.Decimal, fractions.Fraction),
    }
)
_OPAQUE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.CodeType)
_CONTAINERS: dict[str, tuple[type, ...]] = {
    "mapping": (dict,),
    "wrapped": (UserDict, UserList),
    "sequence": (list, tuple, deque),
    "set": (set, frozenset),
    "buffer": (bytearray, array.array),
}
_STANDARD = frozenset(sys.stdlib_module_names) - {"__main__"}

_roles: dict[type, str] = {}
_names: dict[type, list[tuple[str, str]]] = {}


class Slot(NamedTuple):
    """A place in a container: how it is reached, under which key, and what it holds."""

    how: str
    """``item``, ``attribute``, ``member`` of a set, or ``store``: what a UserDict wraps, which is not entered."""
    key: Any
    held: Any

    def after(self, path: str) -> str:
        """The path of this place."""
        if self.how == "item":
            return f"{path}[{self.key!r}]"
        return f"{path}{{{show(self.key)}}}" if self.how == "member" else f"{path}.{self.key}"


def role_of(kind: type) -> str:
    """How objects of a type are watched."""
    role = _roles.get(kind)
    if role is None:
        role = _roles[kind] = _role(kind)
    return role


def _role(kind: type) -> str:
    torch = sys.modules.get("torch")
    if kind in _ATOMS:
        return "plain"
    if issubclass(kind, _OPAQUE) or (torch is not None and issubclass(kind, torch.nn.Module)):
        return "opaque"
    if hasattr(kind, "untyped_storage") and hasattr(kind, "detach"):
        return "tensor"
    if hasattr(kind, "__array_interface__") and hasattr(kind, "strides") and kind.__hash__ is None:
        return "array"
    for role, kinds in _CONTAINERS.items():
        if issubclass(kind, kinds):
            return "fields" if role == "sequence" and hasattr(kind, "_fields") else role
    if kind.__module__.partition(".")[0] in _STANDARD and not issubclass(kind, (types.SimpleNamespace, ChainMap)):
        return "opaque"
    return "object"


def slots(value: Any) -> list[Slot] | None:
    """The places inside; None for what has none, or is watched by identity alone: modules, classes, functions."""
    role = role_of(type(value))
    if role in ("plain", "opaque", "buffer"):
        return None
    extra = _attributes(value)
    if role == "mapping":
        return [*(Slot("item", key, held) for key, held in _items(value)), *extra]
    if role == "sequence":
        return [*(Slot("item", i, held) for i, held in enumerate(_iter(value))), *extra]
    if role == "set":
        return [*(Slot("member", held, held) for held in value), *extra]
    if role == "fields":
        return [Slot("attribute", name, held) for name, held in zip(value._fields, value, strict=True)]
    if role == "wrapped":
        store = getattr(value, "data", ())
        inner = store.items() if isinstance(store, dict) else enumerate(store)
        stores = (Slot("store", *slot[1:]) if slot.key == "data" else slot for slot in extra)
        return [*(Slot("item", key, held) for key, held in inner), *stores]
    if role == "array" and value.dtype.kind == "O":
        return [*(Slot("item", i, held) for i, held in enumerate(value.reshape(-1).tolist())), *extra]
    if role == "tensor" and hasattr(value, "__tensor_flatten__"):
        return []  # what a wrapper keeps in its attributes is its values and its own caches
    return extra


def _items(value: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
    """What a dict holds, whatever a subclass makes of it; dict.items does not know the order of an OrderedDict."""
    return OrderedDict.items(value) if isinstance(value, OrderedDict) else dict.items(value)


def _iter(value: Any) -> Iterator[Any]:
    bases: tuple[Any, ...] = (list, tuple, deque)
    return next(iter(base.__iter__(value)) for base in bases if isinstance(value, base))


def same(a: Any, b: Any) -> bool:
    """Whether a place holds the same: the same object, or an equal plain value of the same type."""
    if a is b:
        return True
    if type(a) is not type(b) or not (type(a) in _ATOMS or _is_value(type(a))):
        return False
    if isinstance(a, (float, complex)):
        return repr(a) == repr(b)  # NaN is NaN, and 0.0 is not -0.0
    try:
        return bool(a == b)
    except Exception:
        return False


def is_sequence(value: Any) -> bool:
    """Whether its places are counted rather than named."""
    return isinstance(value, (list, tuple, deque, UserList))


def describe(value: Any) -> str:
    """A value in a message: itself if it is short, else what it is."""
    role = role_of(type(value))
    if role in ("tensor", "array"):
        kind = type(value).__name__.lower() if role == "tensor" else "array"
        shape = "ragged rows" if getattr(value, "is_nested", False) else f"shape {tuple(value.shape)}"
        return f"{a(kind)} of {str(value.dtype).removeprefix('torch.')} and {shape}"
    if role == "plain":
        return show(value)
    return a(type(value).__name__)


def a(name: str) -> str:
    """The name with its article."""
    return f"{'an' if name[:1] in 'aeioAEIO' else 'a'} {name}"


def _attributes(value: Any) -> list[Slot]:
    inside = getattr(value, "__dict__", None)
    found = [Slot("attribute", name, held) for name, held in inside.items()] if isinstance(inside, dict) else []
    for shown, name in _slotted(type(value)):
        try:
            found.append(Slot("attribute", shown, object.__getattribute__(value, name)))
        except AttributeError:
            continue
    return found


def _slotted(kind: type) -> list[tuple[str, str]]:
    """The names of ``__slots__``, as they are written and as they are stored."""
    known = _names.get(kind)
    if known is not None:
        return known
    found = [("default_factory", "default_factory")] if issubclass(kind, defaultdict) else []
    for base in kind.__mro__:
        names = base.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            private = name[:2] == "__" and name[-2:] != "__"
            if name not in ("__dict__", "__weakref__"):
                found.append((name, f"_{base.__name__.lstrip('_')}{name}" if private else name))
    _names[kind] = found
    return found


def _is_value(kind: type) -> bool:
    """Whether equal objects of a type are interchangeable: hashable by their content, with nothing to look into."""
    home = kind.__module__.partition(".")[0]
    if home == "torch":
        return kind.__name__ in ("Size", "device", "dtype")
    if home == "numpy":
        return kind.__name__ != "ndarray" and hasattr(kind, "itemsize")
    by_content = kind.__hash__ is not None and "__eq__" in {name for base in kind.__mro__[:-1] for name in vars(base)}
    return by_content and home in _STANDARD and not issubclass(kind, (tuple, frozenset))
