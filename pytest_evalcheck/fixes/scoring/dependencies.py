"""Keys of kept scores: the code of a score function, and the dependencies that its user declares."""

from __future__ import annotations

import builtins
import copyreg
import dis
import hashlib
import importlib.metadata
import importlib.util
import struct
import sys
import sysconfig
import types
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path, PurePath
from typing import Any

from pytest_evalcheck.errors import nearest

_ATOMS = (bool, int, float, complex, str, bytes, type(None), type(...), type(NotImplemented), range)
_PYTHON = f"{sys.implementation.name} {'.'.join(map(str, sys.version_info))} {sys.flags.optimize}"
_WRAPPERS = (staticmethod, classmethod, property)
# Functions that dispatch by class keep what they found out in these.
_MEMORIES = (weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet)
# Built-in functions whose value depends on more than their arguments.
_OUTSIDE = {"open", "eval", "exec", "compile", "globals", "input", "breakpoint", "id", "hash", "__import__"}


def fingerprint(score: Callable[..., Any], version: Any = None, depends_on: Any = None) -> str:
    """Return a digest of a score function's own code and of its declared dependencies.

    The code is the bytecode with its constants, defaults, closure and attributes, the arguments of a
    ``functools.partial``, the class of a callable object, and the versions of the packages that these are in.
    Functions that the code calls count only where ``depends_on`` names them.

    Raises:
        TypeError: for a dependency of another type, or a value whose content cannot be read.
        ValueError: for a module, package or path that does not exist.
    """
    items = [depends_on] if isinstance(depends_on, Mapping) else depends_on or ()
    declared = sorted(map(_digest_of, items))
    return content((_PYTHON, content(score, code=True), version, *declared))


def undeclared(score: Callable[..., Any]) -> str:
    """Return a reason why the value of a function may depend on more than its document and its code, else ''.

    A function of built-in functions and constants depends on nothing else, and so does a ``functools.partial`` of it.
    """
    if isinstance(score, partial):
        parts = (*score.args, *score.keywords.values())
        reasons = (undeclared(each) if callable(each) else _variable(each) for each in (score.func, *parts))
        return next(filter(None, reasons), "")
    if isinstance(score, (types.BuiltinFunctionType, type)) and _builtin(score.__name__) is score:
        return ""
    if not isinstance(score, types.FunctionType):
        return f"is no plain function but a {type(score).__name__}"
    if score.__code__.co_freevars:
        return f"closes over {', '.join(score.__code__.co_freevars)}"
    defaults = (*(score.__defaults__ or ()), *(score.__kwdefaults__ or {}).values())
    outside = sorted(set(_names_outside(score.__code__, score.__globals__)))
    return next(filter(None, map(_variable, defaults)), "") or (f"uses {', '.join(outside)}" if outside else "")


def _variable(value: Any) -> str:
    constant = type(value) in _ATOMS or (type(value) in (tuple, frozenset) and not any(map(_variable, value)))
    return "" if constant else f"has a default or an argument that can change, a {type(value).__name__}"


def _names_outside(code: types.CodeType, namespace: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names that a function imports or takes from its module, and built-in functions that read more."""
    for each in dis.get_instructions(code):
        name = str(each.argval)
        if each.opname == "IMPORT_NAME" or (
            ("GLOBAL" in each.opname or each.opname == "LOAD_NAME") and (name in namespace or not _builtin(name))
        ):
            yield name
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_outside(constant, namespace)


def _builtin(name: str) -> Any:
    """Return a built-in function or class whose value depends on its arguments alone; None where it is another one."""
    value = None if name in _OUTSIDE else getattr(builtins, name, None)
    ours = isinstance(value, (types.BuiltinFunctionType, type)) and value.__module__ == "builtins"
    return value if ours or value is NotImplemented or value is ... else None


def _digest_of(item: Any) -> str:
    """Return a digest of a declared dependency."""
    if isinstance(item, Mapping):
        return content([(str(name), _digest_of_value(str(name), item[name])) for name in sorted(item, key=str)])
    if isinstance(item, str):
        return _digest_of_module(item)
    if callable(item) or isinstance(item, (PurePath, types.ModuleType)):
        return _digest_of_value("", item)
    raise TypeError(
        "depends_on: expected functions, classes, modules, names of modules or packages, paths, or a mapping of names "
        f"to values, got {type(item).__name__} {item!r}; a value needs a name: {{'name': {item!r}}}"
    )


def _digest_of_value(name: str, value: Any) -> str:
    if isinstance(value, PurePath):
        return _digest_of_files(Path(value))
    if isinstance(value, types.ModuleType):
        return _digest_of_module(value.__name__)
    try:
        return ("" if callable(value) else content(value)) + content(value, code=True)
    except (TypeError, RecursionError) as error:
        raise TypeError(f"depends_on: {name!r}: {error}; name a text or number that changes with it instead") from error


def _digest_of_files(path: Path) -> str:
    if not path.exists():
        raise ValueError(f"depends_on: there is no file or folder {path}; give its path, or another value")
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    return content([(str(each.relative_to(path)), each.read_bytes()) for each in files if each.suffix != ".pyc"])


def _digest_of_module(name: str) -> str:
    """Return a digest of the version of an installed package, or of the content of a module of the project.

    A module of the project counts with its files and, where it is imported, with its names as they are now: an edit
    that was not reloaded is another state.
    """
    try:
        files = _files(name)
    except (ImportError, ValueError):
        if found := versions(name):
            return found
        hint = nearest(name, [*sys.modules, *distributions()], cutoff=0.6)
        hint = f"; for a file or folder give Path({name!r})" if name and Path(name).exists() else hint
        raise ValueError(f"depends_on: there is no module or package {name!r}{hint}") from None
    if _installed(name.partition(".")[0]):
        return versions(name.partition(".")[0]) or _PYTHON
    loaded = [sys.modules[each] for each in sorted(sys.modules) if f"{each}.".startswith(f"{name}.")]
    names = [[(key, each) for key, each in sorted(vars(module).items()) if key[:2] != "__"] for module in loaded]
    return content([_digest_of_files(Path(each)) for each in files]) + content(names, code=True)


def _files(name: str) -> Sequence[str]:
    """Return the folders of a package, or the file of a module; nothing for one that is a part of Python."""
    found: Any = sys.modules.get(name)
    if found is None:
        found = importlib.util.find_spec(name)
        if found is None:
            raise ModuleNotFoundError(name)
        return list(found.submodule_search_locations or ()) or [found.origin] * found.has_location
    return list(getattr(found, "__path__", ())) or list(filter(None, [getattr(found, "__file__", None)]))


@lru_cache(maxsize=4096)
def _installed(name: str) -> bool:
    """Return whether a package is a part of Python or one that a distribution has installed into site-packages."""
    try:
        files = [Path(each) for each in _files(name)]
    except (ImportError, ValueError):
        return False
    if name == "__main__" or not files:
        return name in sys.builtin_module_names or name in sys.stdlib_module_names
    if {"site-packages", "dist-packages"} & set(files[0].parts):
        return name in distributions()
    return files[0].resolve().is_relative_to(Path(sysconfig.get_path("stdlib")).resolve())


@lru_cache(maxsize=1)
def distributions() -> Mapping[str, Sequence[str]]:
    """Return the distributions that have installed a package or module, by its name."""
    if sys.version_info >= (3, 11):
        return importlib.metadata.packages_distributions()
    return _distributions_by_files()


def _distributions_by_files() -> Mapping[str, Sequence[str]]:
    """Return the same on Python 3.10, which lacks distributions that declare no packages, such as NumPy."""
    found: dict[str, list[str]] = {}
    for each in importlib.metadata.distributions():
        declared = (each.read_text("top_level.txt") or "").split()
        files = [path for path in each.files or () if path.suffix == ".py"]
        for name in declared or {path.parts[0] if len(path.parts) > 1 else path.stem for path in files}:
            found.setdefault(name, []).append(each.metadata["Name"])
    return found


@lru_cache(maxsize=4096)
def versions(package: str) -> str:
    """Return the names and versions of the distributions of a package, with a commit where there is one, else ''."""
    found = []
    for name in sorted(set(distributions().get(package, [package]))):
        try:
            each = importlib.metadata.distribution(name)
        except (importlib.metadata.PackageNotFoundError, ValueError):
            continue
        found.append(f"{name} {each.version}{each.read_text('direct_url.json') or ''}")
    return " ".join(found)


def content(value: Any, *, code: bool = False) -> str:
    """Return a digest of a document or value, with ``code`` also of the code of classes.

    Raises:
        TypeError: where the content of an object cannot be read; with ``code`` such an object counts by its class.
    """
    writer = _Writer(code=code)
    writer.write(value)
    return writer.hash.hexdigest()


class _Writer:
    """Hash of a value's content."""

    def __init__(self, *, code: bool) -> None:
        self.hash = hashlib.blake2b(digest_size=20)
        self._code_too = code
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []  # an address must not be used again for something else

    def _text(self, text: str | bytes) -> None:
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        self.hash.update(struct.pack("<Q", len(data)) + data)

    def write(self, value: Any) -> None:
        """Add a value; one that was met before is written as a number, so that cycles end."""
        kind = type(value)
        if kind in _ATOMS:
            self._text(kind.__name__)
            self._text(value if kind in (str, bytes) else repr(value))
        elif kind is tuple:
            self._items(value)
        elif kind in (set, frozenset):
            self._text(kind.__name__)
            self._items(sorted(content(each, code=self._code_too) for each in value))
        elif kind is types.CodeType:
            self._code(value)
        elif id(value) in self._numbers:
            self._text(f"#{self._numbers[id(value)]}")
        else:
            self._numbers[id(value)] = len(self._numbers)
            self._alive.append(value)
            self._define(value)

    def _name(self, value: Any, name: str) -> None:
        """Add the full name of a function or class, with ``code`` also the version of its package."""
        module = str(getattr(value, "__module__", None) or "builtins")
        self._text(f"{module}.{name} {versions(module.partition('.')[0]) if self._code_too else ''}")

    def _items(self, items: Collection[Any]) -> None:
        self._text(f"{type(items).__name__} {len(items)}")
        for each in items:
            self.write(each)

    def _define(self, value: Any) -> None:
        kind = type(value)
        if kind is list:
            self._items(value)
        elif kind is dict:
            self._text("dict")
            self._items([each for pair in value.items() for each in pair])
        elif kind is types.FunctionType:
            cells = tuple(map(_contents, value.__closure__ or ()))
            self._name(value, value.__qualname__)
            self._code(value.__code__)
            self.write((value.__defaults__, value.__kwdefaults__, cells, vars(value)))
        elif isinstance(value, types.ModuleType):
            self._text(value.__name__)
        elif isinstance(value, type):
            self._name(value, value.__qualname__)
            if self._code_too:
                self._class(value)
        elif kind in _WRAPPERS:
            self.write([getattr(value, name, None) for name in ("__func__", "fget", "fset", "fdel")])
        elif kind.__module__ == "torch.storage":
            self._storage(value)
        else:
            self._instance(value)

    def _code(self, code: types.CodeType) -> None:
        """Add the compiled code, without lines and file: two functions of the same source are the same."""
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
        names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
        self.write((code.co_name, counts, code.co_code, getattr(code, "co_exceptiontable", b""), names, code.co_consts))

    def _class(self, value: type) -> None:
        """Add the functions and values of a class and of its bases, as far as they belong to no installed package."""
        for base in value.__mro__:
            self._name(base, base.__qualname__)
            if not _installed(base.__module__.partition(".")[0]):
                for name, member in sorted(vars(base).items()):
                    if not name.startswith("__") or isinstance(member, (types.FunctionType, *_WRAPPERS)):
                        self._text(name)
                        self.write(member)

    def _storage(self, storage: Any) -> None:
        """Add the bytes of a tensor: its pickle has an address beside them."""
        import torch

        untyped = getattr(storage, "_untyped_storage", storage)
        self._text(f"{getattr(storage, 'dtype', '')} {untyped.device}")
        self._text(torch.empty(0, dtype=torch.uint8).set_(untyped.cpu()).numpy().tobytes())

    def _instance(self, value: Any) -> None:
        """Add an object as it is pickled; of the project's own classes the attributes too, which a pickle may omit."""
        kind = type(value)
        self.write(kind)
        if issubclass(kind, _MEMORIES):
            return
        try:
            special = copyreg.dispatch_table.get(kind)
            parts = special(value) if special else value.__reduce_ex__(4)
        except Exception as error:
            if not self._code_too:
                raise TypeError(f"a {kind.__name__} has no content that can be read ({error})") from error
            parts = ""
        if isinstance(parts, str):  # it is found under this name
            self._name(value, parts)
        else:
            self.write(tuple(list(each) if isinstance(each, Iterator) else each for each in parts))
        if not _installed(kind.__module__.partition(".")[0]) or hasattr(value, "__wrapped__"):
            self.write(getattr(value, "__dict__", None))


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # ``super()`` in a class that is still being made
        return None
