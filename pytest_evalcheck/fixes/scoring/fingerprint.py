"""A text that changes when a function may give other values."""

from __future__ import annotations

import copyreg
import functools
import hashlib
import inspect
import logging
import re
import struct
import sys
import threading
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from pytest_evalcheck.fixes.scoring.libraries import extension, file_of, library, settings
from pytest_evalcheck.fixes.scoring.references import Named, references
from pytest_evalcheck.fixes.scoring.unseen import why_unseen, why_unseen_attribute

_ATOMS = (bool, int, float, complex, str, bytes, type(None), type(...), type(NotImplemented), range)
_LISTS: Any = (list, deque)
_MAPPINGS: Any = (dict, OrderedDict, types.MappingProxyType)
_CONTAINERS: Any = (list, tuple, set, frozenset, deque)
_NUMBERS_AND_TEXTS: Any = (int, float, complex, str, bytes)
_BUILTIN = (types.BuiltinFunctionType, types.MethodWrapperType)
# Of the classes of C: each stands for a field or a method that the class itself has.
_DESCRIPTORS = (
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
)
# What guards, runs, logs or remembers, and holds no value of its own.
_VALUELESS: Any = (
    type(threading.Lock()),
    type(threading.RLock()),
    logging.Logger,
    logging.LoggerAdapter,
    logging.Handler,
    Executor,
    weakref.ReferenceType,
    weakref.WeakKeyDictionary,
    weakref.WeakValueDictionary,
    weakref.WeakSet,
)
_LRU_CACHE = type(functools.lru_cache(lambda: None))
# Attributes of a class that follow from the others, or that no code of it reads.
_DERIVED = {
    "__dict__",
    "__weakref__",
    "__doc__",
    "__module__",
    "__firstlineno__",
    "__static_attributes__",
    "__abstractmethods__",
    "_abc_impl",
    "__slotnames__",  # pickle keeps it in the class of the first object that it meets
}
_MOST_NAMED = 5


def fingerprint(function: Callable[..., Any], declared: Collection[str] = ()) -> str:
    """Return a digest of all that the value of a function depends on, in its own project.

    That is its compiled code, defaults, closure, attributes and the arguments of a ``functools.partial``; for a
    callable object its attributes and its class with metaclass and bases; and the functions, classes, modules and
    values of the project that the code names, and those that these name. Of a library it is the version, of Python the
    version too, and the settings that change numbers everywhere (locale, default dtype).

    Args:
        function: what scores a document, or anything that is called.
        declared: full names, such as ``scorer.load`` or ``scorer``, about which the caller vouches in another way.

    Raises:
        TypeError: where something cannot be seen, such as a file that is opened, with the name that declares it.
    """
    walk = _Walk()
    walk.add(function, _name(function))
    walk.finish()
    unseen = {
        name: why
        for name, why in walk.unseen.items()
        if not any(name == each or name.startswith(f"{each}.") for each in declared)
    }
    if unseen:
        raise TypeError(_refusal(_name(function), unseen))
    for setting in settings():
        walk.write(setting)
    return walk.digest()


def content(value: Any, classes: dict[type, str] | None = None) -> str:
    """Return a digest of a value: of a path the content of its file or folder, of a function its fingerprint.

    ``classes`` are the digests of classes that were met, which saves looking at them again.

    Raises:
        TypeError: for a value that cannot be looked into.
        ValueError: for a path where there is nothing.
    """
    if isinstance(value, Path):
        return _content_of_path(value)
    walk = _Walk(classes)
    walk.add(value, type(value).__name__)
    walk.finish()
    # Whoever names a function in ``depends_on`` vouches for what it reads; a document has nobody who does.
    unseen = [each for each in walk.unseen.items() if classes is not None or each[1].startswith(_OPAQUE)]
    if unseen:
        raise TypeError("{} {}".format(*unseen[0]))
    return walk.digest()


_OPAQUE = "holds"


def _refusal(name: str, unseen: Mapping[str, str]) -> str:
    lines = [f"  {each} {why}" for each, why in list(unseen.items())[:_MOST_NAMED]]
    if len(unseen) > _MOST_NAMED:
        lines.append(f"  and {len(unseen) - _MOST_NAMED} more")
    first = next(iter(unseen))
    return "\n".join(
        [
            f"cache: the scores of {name} may depend on what cannot be seen, so a kept score could be out of date:",
            *lines,
            f"declare each, with a value that changes when it does: depends_on={{{first!r}: Path('rules.json')}} (a "
            "Path stands for the content of its file or folder); or keep it out of the function, or score without a "
            "cache",
        ]
    )


def _content_of_path(path: Path) -> str:
    if not path.exists():
        raise ValueError(f"depends_on: there is no file or folder {path}; give its path, or another value")
    found = hashlib.blake2b(digest_size=20)
    for file in sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]:
        data = file.read_bytes()
        name = str(file.relative_to(path)).encode("utf-8", "surrogateescape")
        found.update(struct.pack("<QQ", len(name), len(data)) + name + data)
    return f"content {found.hexdigest()}"


def _name(thing: Any) -> str:
    """The full name of a function or class; for an object that of its class."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    thing = inspect.unwrap(thing) if isinstance(thing, _LRU_CACHE) else thing
    if isinstance(thing, types.FunctionType):
        return f"{thing.__globals__.get('__name__')}.{thing.__qualname__}"
    if not hasattr(thing, "__qualname__"):
        thing = type(thing)
    return f"{getattr(thing, '__module__', None) or 'builtins'}.{thing.__qualname__}"


class _Walk:
    """Writes what a thing consists of. What is met again is written as a number, so that cycles end."""

    def __init__(self, classes: dict[type, str] | None = None) -> None:
        self.unseen: dict[str, str] = {}
        self._classes = classes
        self._hash = hashlib.blake2b(digest_size=20)
        self._numbers: dict[int, int] = {}
        self._waiting: deque[tuple[Any, str]] = deque()
        self._alive: list[Any] = []  # an address must not be used again for something else

    def write(self, text: str | bytes) -> None:
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        self._hash.update(struct.pack("<Q", len(data)) + data)

    def digest(self) -> str:
        return self._hash.hexdigest()

    def add(self, thing: Any, place: str) -> None:
        """Write a value in its place, or the number of what is looked into later."""
        kind = type(thing)
        if kind in _ATOMS:
            self.write(kind.__name__)
            self.write(thing if kind is bytes else str(thing) if kind is str else repr(thing))
        elif kind is tuple:
            self._items("tuple", thing, place)
        elif kind in (set, frozenset):
            self.write(f"{kind.__name__} {len(thing)}")
            for key in sorted(map(self._alone, thing)):
                self.write(key)
        elif kind is types.CodeType:
            self._code(thing)
        else:
            if id(thing) not in self._numbers:
                self._numbers[id(thing)] = len(self._numbers)
                self._alive.append(thing)
                self._waiting.append((thing, place))
            self.write(f"#{self._numbers[id(thing)]}")

    def finish(self) -> None:
        """Look into everything that was met."""
        while self._waiting:
            thing, place = self._waiting.popleft()
            self._define(thing, place)

    def _items(self, kind: str, items: Collection[Any], place: str) -> None:
        self.write(f"{kind} {len(items)}")
        for item in items:
            self.add(item, place)

    def _alone(self, thing: Any) -> str:
        """A digest that does not depend on what was met before, to sort by."""
        walk = _Walk(self._classes)
        walk._numbers, walk._alive = dict(self._numbers), list(self._alive)
        walk.add(thing, _name(thing))
        walk.finish()
        self.unseen.update(walk.unseen)
        return walk.digest()

    def _define(self, thing: Any, place: str) -> None:
        kind = type(thing)
        if kind in _LISTS:
            self._items(kind.__name__, thing, place)
        elif kind in _MAPPINGS:
            self._items(kind.__name__, [each for pair in thing.items() for each in pair], place)
        elif kind is Named:
            self.write(f"{thing.name} {library(thing.name.partition(',')[0])}")
        elif issubclass(kind, types.ModuleType):
            self._module(thing)
        elif kind is types.FunctionType:
            self._function(thing, place)
        elif issubclass(kind, type):
            self._class(thing)
        elif kind in (types.MethodType, types.BuiltinFunctionType) and _of_a_library(thing):
            self.write(f"{type(thing.__self__).__module__}.{thing.__name__}")
            self.add(type(thing.__self__), place)
        elif kind is types.MethodType:
            self._items("method", (thing.__func__, thing.__self__), place)
        elif issubclass(kind, (_LRU_CACHE, staticmethod, classmethod)):  # what a cache remembers is no part of it
            self._items(kind.__name__, (thing.__wrapped__, getattr(thing, "cache_parameters", tuple)()), place)
        elif issubclass(kind, property):
            self._items("property", (thing.fget, thing.fset, thing.fdel), place)
        elif kind in _BUILTIN:
            self._builtin(thing, place)
        elif kind in _DESCRIPTORS:
            self.write(f"{kind.__name__} {thing.__name__}")
        elif issubclass(kind, _VALUELESS):
            self.write(_name(kind))
        elif kind is types.CellType:
            self.write("cell")
            self._cell(thing, place)
        elif kind.__module__ == "torch.storage":
            self._storage(thing)
        else:
            self._instance(thing, place)

    def _cell(self, cell: types.CellType, place: str) -> None:
        try:
            self.add(cell.cell_contents, place)
        except ValueError:  # ``super()`` in a class that is still being made
            self.write("empty")

    def _storage(self, storage: Any) -> None:
        """The bytes of a tensor: as it is pickled they have its address beside them."""
        import torch

        untyped = getattr(storage, "_untyped_storage", storage)
        data = torch.empty(0, dtype=torch.uint8).set_(untyped.cpu()).numpy().tobytes()
        self.write(f"storage {getattr(storage, 'dtype', '')} {untyped.device}")
        self.write(data)

    def _code(self, code: types.CodeType) -> None:
        """What was compiled, without lines and file: two functions of the same source are the same."""
        self.write(
            f"{code.co_name} {code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount} {code.co_flags}"
        )
        self.write(code.co_code)
        self.write(getattr(code, "co_exceptiontable", b""))
        for names in (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars):
            self.write(" ".join(names))
        self._items("constants", code.co_consts, code.co_name)

    def _function(self, function: types.FunctionType, place: str) -> None:
        module = str(function.__globals__.get("__name__", ""))
        name = f"{module}.{function.__qualname__}"
        installed = library(module, file_of(module) or function.__code__.co_filename)
        self.write(f"function {name} {installed}")
        if installed is None:
            self._code(function.__code__)
            place = name
        self._items("defaults", function.__defaults__ or (), place)
        self.add(function.__kwdefaults__, place)
        # A decorator of a library closes over the function of the project.
        for cell in function.__closure__ or ():
            if not isinstance(_contents(cell), types.ModuleType):
                self._cell(cell, place)
        self.add({key: each for key, each in vars(function).items() if key != "__wrapped__"}, place)
        self.add(getattr(function, "__wrapped__", None), place)
        if installed is None:
            self._annotations(function)
            self._references(function, module, name)

    def _annotations(self, function: types.FunctionType) -> None:
        for name, each in sorted(getattr(function, "__annotations__", {}).items()):
            self.write(f"{name}: {_name(each) if isinstance(each, type) else _without_address(each)}")

    def _references(self, function: types.FunctionType, module: str, name: str) -> None:
        found = references(function)
        for attribute in sorted(found.attributes):
            if why := why_unseen_attribute(attribute):
                self.unseen.setdefault(name, f"{why} (.{attribute})")
        for written, value in found.values:
            self.write(written)
            full = _full_name(written, value, function.__globals__)
            if why := why_unseen(full, value, library(full) is not None):
                self.unseen.setdefault(name, f"{why} ({written})")
            elif value is globals or full == "builtins.globals":
                self._names(function.__globals__, module)
            elif _is_data(value) and library(full.rpartition(".")[0]) and "." in written:
                self._data_of_a_library(value, full)
            else:
                self.add(value, full if _is_data(value) else name)

    def _data_of_a_library(self, value: Any, full: str) -> None:
        walk = _Walk()
        walk.add(value, full)
        walk.finish()
        self.write(walk.digest() if not walk.unseen else _name(value))

    def _module(self, module: types.ModuleType) -> None:
        name = module.__name__
        installed = library(name, str(getattr(module, "__file__", None) or ""))
        self.write(f"module {name} {installed}")
        if installed is None:
            if type(module) is not types.ModuleType:
                self.add(type(module), name)
            self.write(extension(name))
            self._names(vars(module), name)

    def _names(self, namespace: Mapping[str, Any], module: str) -> None:
        """All that a module defines, where any of its names may be asked for."""
        for name, value in sorted(namespace.items()):
            if not name.startswith("__") or name in ("__getattr__", "__dir__"):
                self.write(name)
                self.add(value, f"{module}.{name}")

    def _builtin(self, thing: Any, place: str) -> None:
        module = getattr(thing, "__module__", None) or ""
        self.write(f"builtin {module}.{thing.__qualname__} {library(module) if module else ''}")
        if module and library(module) is None:
            self.write(extension(module))
        owner = getattr(thing, "__self__", None)
        if not isinstance(owner, types.ModuleType):
            self.add(owner, place)

    def _class(self, thing: type) -> None:
        name = f"{thing.__module__}.{thing.__qualname__}"
        if self._classes is not None:
            if thing not in self._classes:
                self._classes[thing] = _of_class(thing)
            self.write(f"class {name} {self._classes[thing]}")
            return
        installed = library(str(thing.__module__))
        if installed is not None and _found(thing) is thing:
            self.write(f"class {name} {installed}")
            return
        self.write(f"class {name}")
        self.write(extension(str(thing.__module__)))
        self._items("bases", (type(thing), *thing.__bases__), name)
        for key, value in sorted(vars(thing).items()):
            if key in _DERIVED or (key.startswith("__") and _is_opaque(value)):
                continue
            if key == "__annotations__" and not value:  # made where somebody asks for those of a class without any
                continue
            self.write(key)
            self.add(value, f"{name}.{key}")

    def _instance(self, thing: Any, place: str) -> None:
        """The class of an object and its attributes, or how it is pickled.

        Of a class of the project attributes are read as they are, as ``__getstate__`` may leave some out. Objects of
        libraries are looked into as they are pickled, as they may keep intermediate results in their attributes.
        """
        kind = type(thing)
        self.write("instance")
        self.add(kind, place)
        installed = library(str(kind.__module__)) is not None and _found(kind) is kind
        attributes, contents = _attributes(thing), _contents_of_builtin(thing)
        parts, error = None, None
        if installed or (contents is None and _holds_more(kind)):
            try:
                special = copyreg.dispatch_table.get(kind)
                parts = special(thing) if special else thing.__reduce_ex__(4)
            except Exception as raised:
                error = raised
        if parts is None or not installed:
            for name, value in attributes:
                self.write(name)
                self.add(value, place)
            if contents is not None:
                self._items("contents", contents, place)
        if isinstance(parts, str):  # it is found under this name
            module = str(getattr(thing, "__module__", None) or kind.__module__)
            self.write(f"{parts} {library(module)} {extension(module) if library(module) is None else ''}")
        elif parts is not None:
            self._items("parts", tuple(map(_listed, parts)), place)
        elif error is not None and contents is None and _holds_more(kind):
            qualname = getattr(thing, "__qualname__", None)
            if qualname and callable(thing) and library(str(thing.__module__)):
                self.write(f"{thing.__module__}.{qualname} {library(thing.__module__)}")
            else:
                self.unseen.setdefault(place, f"{_OPAQUE} a {kind.__name__}, which cannot be looked into ({error})")


def _of_class(thing: type) -> str:
    walk = _Walk()
    walk.add(thing, _name(thing))
    walk.finish()
    if walk.unseen:
        raise TypeError("{} {}".format(*next(iter(walk.unseen.items()))))
    return walk.digest()


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _full_name(written: str, value: Any, namespace: Mapping[str, Any]) -> str:
    """The name by which a value is known everywhere: ``numpy.load`` for what a module calls ``np.load``."""
    if isinstance(value, Named):
        return value.name
    if isinstance(value, types.ModuleType):
        return value.__name__
    if not _is_data(value):
        return _name(value)
    first, _, rest = written.partition(".")
    owner = namespace.get(first)
    return (
        f"{owner.__name__}.{rest}"
        if rest and isinstance(owner, types.ModuleType)
        else (f"{_origin(value) or namespace.get('__name__')}.{written}")
    )


def _origin(value: Any) -> str:
    """The module of a value that Python has one of: ``from os import environ``."""
    import os

    return "os" if value is os.environ else "sys" if value is sys.modules or value is sys.argv else ""


def _of_a_library(method: Any) -> bool:
    """Whether a method is that of an object which a library has one of, such as ``random.random``."""
    kind = type(method.__self__)
    module = sys.modules.get(kind.__module__)
    return library(kind.__module__) is not None and getattr(module, method.__name__, None) == method


def _is_data(value: Any) -> bool:
    """Whether a value is no function, class or module."""
    if isinstance(value, (type, types.ModuleType, Named)):
        return False
    return not (callable(value) and isinstance(getattr(value, "__qualname__", None), str))


def _is_opaque(value: Any) -> bool:
    walk = _Walk()
    walk._instance(value, "") if _is_data(value) and not isinstance(value, (*_ATOMS, tuple)) else None
    return bool(walk.unseen)


def _found(thing: type) -> Any:
    """What its module has under the name of a class."""
    found: Any = sys.modules.get(str(thing.__module__))
    for part in thing.__qualname__.split("."):
        found = getattr(found, part, None)
    return found


def _without_address(value: Any) -> str:
    return value if isinstance(value, str) else re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _attributes(thing: Any) -> Iterable[tuple[str, Any]]:
    """The attributes of an object itself, in its ``__dict__`` and its slots."""
    try:
        found = dict(object.__getattribute__(thing, "__dict__"))
    except (AttributeError, TypeError):
        found = {}
    for base in type(thing).__mro__:
        for name, descriptor in vars(base).items():
            if isinstance(descriptor, types.MemberDescriptorType):
                try:
                    found.setdefault(name, descriptor.__get__(thing, type(thing)))
                except Exception:  # an empty slot
                    continue
    return sorted((str(name), value) for name, value in found.items())


def _contents_of_builtin(thing: Any) -> list[Any] | None:
    """What an object of a class derived from a container or a number contains."""
    if isinstance(thing, dict):
        return [each for pair in dict.items(thing) for each in pair]
    for kind in _CONTAINERS:
        if isinstance(thing, kind):
            items = list(kind.__iter__(thing))
            return [frozenset(items)] if kind in (set, frozenset) else items
    for atom in _NUMBERS_AND_TEXTS:
        if isinstance(thing, atom):
            return [atom.__getnewargs__(thing)[0] if atom in (str, bytes) else atom.__add__(thing, 0)]
    return None


def _holds_more(kind: type) -> bool:
    """Whether objects of a class hold what no attribute shows, as those of classes of C do."""
    slots = sum(
        isinstance(each, types.MemberDescriptorType) and not name.startswith("__")
        for base in kind.__mro__
        for name, each in vars(base).items()
    )
    pointer = struct.calcsize("P")
    shown = object.__basicsize__ + pointer * (slots + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0))
    return kind.__basicsize__ > shown or kind.__itemsize__ > 0


def _listed(part: Any) -> Any:
    """The items of a list or mapping, which are pickled by an iterator."""
    return list(part) if isinstance(part, Iterator) else part
