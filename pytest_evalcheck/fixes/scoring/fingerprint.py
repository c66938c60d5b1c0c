"""A text that changes when a function may give other values."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pytest_evalcheck.fixes.scoring.errors import needed


def fingerprint(function: Callable[..., Any]) -> str:
    """Return a digest of all that the value of a function depends on, as far as it can be seen.

    That is its name, its source, its defaults, what it closes over, the arguments of a ``functools.partial``, the
    attributes of a callable object, its class with all bases, and the functions, classes and values of its own module
    that it names, theirs too. What it imports, reads from disk or gets from a server cannot be seen, nor can values of
    its module that cannot be hashed: name those in ``depends_on``. TypeError for a function that closes over, or has
    as an argument or attribute, something that cannot be hashed.
    """
    found = hashlib.blake2b(digest_size=20)
    for part in _parts(function, set()):
        found.update(part.encode("utf-8", "backslashreplace") + b"\0")
    return found.hexdigest()


def _parts(thing: Any, seen: set[int]) -> Iterator[str]:
    if id(thing) in seen:
        yield "seen"
        return
    if isinstance(thing, functools.partial):
        yield "partial"
        for part in (thing.func, *thing.args, *(each for pair in sorted(thing.keywords.items()) for each in pair)):
            yield from _parts(part, seen)
    elif isinstance(thing, types.MethodType):
        yield "method"
        yield from _parts(thing.__func__, seen)
        yield from _parts(thing.__self__, seen)
    elif isinstance(thing, types.FunctionType):
        seen.add(id(thing))
        yield from _function(thing, seen)
    elif isinstance(thing, type):
        seen.add(id(thing))
        yield from _class(thing, seen)
    elif isinstance(thing, (types.BuiltinFunctionType, types.ModuleType)):
        yield f"{type(thing).__name__} {getattr(thing, '__module__', '')}.{thing.__name__}"
    elif callable(thing):
        seen.add(id(thing))
        yield from _parts(type(thing), seen)
        for name, value in sorted(getattr(thing, "__dict__", {}).items()):
            yield name
            yield from _parts(value, seen)
    else:
        yield f"{type(thing).__qualname__} {_hash(thing)}"
        if not _library(type(thing)):
            yield from _parts(type(thing), seen)


def _function(function: types.FunctionType, seen: set[int]) -> Iterator[str]:
    yield f"{function.__module__}.{function.__qualname__} {_source(function)}"
    code = function.__code__
    for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield from _parts(value, seen)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        yield name
        with contextlib.suppress(ValueError):  # ``super()`` in a class that is still being made
            yield from _parts(cell.cell_contents, seen)
    for name in sorted(_names(code) & function.__globals__.keys()):
        value = function.__globals__[name]
        if isinstance(value, types.ModuleType):
            continue
        yield name
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            if value.__module__ == function.__module__:
                yield from _parts(value, seen)
            else:
                yield f"{value.__module__}.{value.__qualname__}"
            continue
        try:
            yield from list(_parts(value, seen))
        except TypeError:  # a lock or a pool: what holds no value has no part in a score
            yield type(value).__qualname__


def _class(thing: type, seen: set[int]) -> Iterator[str]:
    """Yield the source of a class and its bases, and what their methods use."""
    for base in thing.__mro__:
        yield f"class {base.__module__}.{base.__qualname__}"
        if _library(base):
            continue
        yield _source(base)
        for name, value in sorted(vars(base).items(), key=lambda item: item[0]):
            value = getattr(value, "__func__", getattr(value, "fget", value))
            if isinstance(value, types.FunctionType) and id(value) not in seen:
                seen.add(id(value))
                yield name
                yield from _function(value, seen)


def _library(thing: type) -> bool:
    """Return whether a class comes from an installed library, whose source changes with its version only."""
    module = sys.modules.get(thing.__module__)
    path = getattr(module, "__file__", None) or ""
    library = thing.__module__.partition(".")[0] in sys.stdlib_module_names or "site-packages" in Path(path).parts
    return library and thing.__module__ != "__main__"


def _names(code: types.CodeType) -> set[str]:
    """Names of globals and attributes, in the functions within too."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*(map(_names, inner)))


def _source(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):  # typed into a console, or made by exec
        code = getattr(thing, "__code__", None)
        return "" if code is None else _compiled(code)


def _compiled(code: types.CodeType) -> str:
    inner = [_compiled(each) if isinstance(each, types.CodeType) else repr(each) for each in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {inner}"


def _hash(value: Any) -> str:
    try:
        return str(needed("joblib").hash(value))
    except Exception as error:
        raise TypeError(
            f"cache: what the score function depends on cannot be told, as it holds a {type(value).__name__} that "
            f"cannot be hashed ({error}); keep such a thing out of the function, or score without a cache"
        ) from error
