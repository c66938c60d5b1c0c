"""Calls made of annotations, as if a run had been watched: for functions and methods that no run has called."""

from __future__ import annotations

import collections.abc as abc
import enum
import inspect
import random
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from pytest_evalcheck.learning.values import encoded
from pytest_evalcheck.learning.watching import Call, Object, Seen

ORIGIN = "the types of its parameters"
"""The place of these calls, where those of a run have the name of a test."""
_LENGTHS = (4, 3, 5, 4)
"""Numbers of rows of the calls of one form."""
_TEXTS = ("the cat sat", "the cat sat on the mat", "a dog", "a dog ran", "two birds fly south", "the mat")
_FRACTIONS = (0.125, 0.25, 0.375, 0.5, 0.75, 0.875)
_FORMS = (
    ("fractions", "fractions"),
    ("labels", "labels"),
    ("fractions", "labels"),
    ("rows", "labels"),
    ("fractions", "rows"),
)
"""Contents of the first array and of the others; which of them a function takes is found by a trial."""
_COLUMNS = 3
_LISTS = (list, tuple, abc.Sequence, abc.Iterable, abc.Collection, abc.MutableSequence)
_SETS = (set, frozenset, abc.Set)
_MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)
_NUMBERS = (int, float)
GUESSES = ("array", str, list[str], list[float])
"""Types of parameters that have no annotation; an array is of the library that the module uses."""
_OF_FIELDS = ("__dataclass_fields__", "__pydantic_fields__", "_fields")
_DEPTH = 4


class _Unknown(Exception):
    """An annotation of which no value can be made."""


def seen_in_annotations(thing: Any, types: int = 0) -> Seen | None:
    """Make calls of a function, or of the methods of a class, of which the types of parameters and results are known.

    Each value is of the annotated type: arrays and lists of one call have one length, and the first is of fractions,
    labels or rows in turn. Nothing is called but constructors of records. None where a parameter that is needed has no
    known type, where one number is all that is given, or where the result is no number and holds none.

    Args:
        thing: a class or a function.
        types: which of `GUESSES` the two or more parameters have, where none is annotated.
    """
    module, name = str(getattr(thing, "__module__", "")), str(getattr(thing, "__qualname__", ""))
    if not name.isidentifier():
        return None
    seen = Seen(module, name, is_class=inspect.isclass(thing), types=types)
    if not seen.is_class:
        seen.calls = [(ORIGIN, Call("", arguments)) for arguments in _calls(thing, types)]
        return seen if seen.calls else None
    try:
        given = _needed(thing.__init__)[1:] if thing.__init__ is not object.__init__ else []
        made = next(_arguments(given), {}) if given else {}
    except (TypeError, ValueError, _Unknown):
        return None
    for method, function in _methods(thing):
        calls = [Call(method, arguments) for arguments in _calls(function, types, skip=1)]
        seen.objects += [Object(made, ORIGIN, calls)] if calls else []
    return seen if seen.objects else None


def annotated(function: Any) -> bool:
    """Return whether a parameter of a function, or of a public method of a class, has an annotation."""
    functions = [each for _, each in _methods(function)] if inspect.isclass(function) else [function]
    return any({*getattr(each, "__annotations__", {})} - {"return"} for each in functions)


def plain_types(function: Any) -> list[Any]:
    """Return a value of each parameter of a function, where each is a text or a collection by its annotation."""
    try:
        needed = _needed(function)
        plain = [typing.get_origin(kind) in (*_LISTS, *_SETS, *_MAPPINGS) or kind is str for _, kind in needed]
        return [_value(kind, 3, "", random.Random(0)) for _, kind in needed] if all(plain) else []
    except (TypeError, ValueError, _Unknown):
        return []


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    for base in cls.__mro__[:-1]:
        for name, each in vars(base).items():
            if inspect.isfunction(each) and (name == "__call__" or not name.startswith("_")):
                yield name, each


def _calls(function: Any, types: int, skip: int = 0) -> list[dict[str, Any]]:
    try:
        needed, result = _needed(function)[skip:], _hints(function).get("return", inspect.Parameter.empty)
        if len(needed) > 1 and all(kind is inspect.Parameter.empty for _, kind in needed):
            needed = [(name, _guess(function, types)) for name, _ in needed]
        elif types:
            return []
        numbers = all(kind in _NUMBERS for _, kind in needed) and len(needed) < 2  # one number is no sample
        return [] if numbers or not _gives_numbers(result) else [*_arguments(needed)]
    except (TypeError, ValueError, _Unknown):
        return []


def _guess(function: Any, types: int) -> Any:
    """Return one of `GUESSES` as a type."""
    if GUESSES[types] != "array":
        return GUESSES[types]
    if "torch" in getattr(function, "__globals__", {}):
        import torch

        return torch.Tensor
    import numpy

    return numpy.ndarray


def _needed(function: Any) -> list[tuple[str, Any]]:
    """Return the name and the type of each parameter without a default."""
    hints = _hints(function)
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [
        (each.name, hints.get(each.name, each.empty))
        for each in parameters
        if each.default is each.empty and each.kind not in variable
    ]


def _hints(function: Any) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(function)
    except Exception:  # a name that is imported for the type checker alone
        return {}


def _gives_numbers(kind: Any, depth: int = _DEPTH) -> bool:
    """Return whether a type is a number, or may hold one."""
    origin, inside = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(_gives_numbers(each, depth) for each in inside)
    if kind in (Any, inspect.Parameter.empty, bool, *_NUMBERS, abc.Mapping, dict, tuple, list) or _array_home(kind):
        return True
    if origin in (*_LISTS, *_MAPPINGS):
        return depth > 0 and any(_gives_numbers(each, depth - 1) for each in inside)
    fields = any(hasattr(kind, name) for name in _OF_FIELDS)
    return fields and depth > 0 and any(_gives_numbers(each, depth - 1) for each in _hints(kind).values())


def _arguments(needed: list[tuple[str, Any]]) -> Iterator[dict[str, Any]]:
    chance = random.Random(0)
    arrays = [name for name, kind in needed if _array_home(kind)]
    for form in _FORMS if arrays else [("", ""), ("", "")]:
        for length in _LENGTHS:
            made, options = {}, random.Random(1)
            for name, kind in needed:
                if arrays and name not in arrays:  # an option, the same in every call, of a value for each column
                    value = _value(kind, _COLUMNS, "", options)
                else:
                    value = _value(kind, length, form[name != next(iter(arrays), "")], chance)
                made[name] = encoded(value, name=name)
            yield made


def _value(kind: Any, length: int, content: str, chance: random.Random, depth: int = _DEPTH) -> Any:
    """Return a value of a type.

    Raises:
        _Unknown: where none is known.
    """
    origin, inside = typing.get_origin(kind) or kind, typing.get_args(kind)
    if depth == 0:
        raise _Unknown(kind)
    one: Callable[[Any], Any] = lambda each: _value(each, length, content, chance, depth - 1)  # noqa: E731
    if origin in (typing.Union, types.UnionType):
        return one(next(each for each in inside if each is not type(None)))
    if origin is typing.Literal:
        return chance.choice(inside)
    if home := _array_home(kind):
        return _array(home, length, content, chance)
    simple: dict[Any, Callable[[], Any]] = {
        str: lambda: chance.choice(_TEXTS),
        float: lambda: chance.choice((0.25, 0.5, 0.75)),
        int: lambda: chance.choice((1, 2, 3)),
        bool: lambda: chance.random() < 0.5,
    }
    if kind in simple:
        return simple[kind]()
    if origin in (*_LISTS, *_SETS) and inside:
        if origin is tuple and inside[-1] is not Ellipsis:
            return tuple(map(one, inside))
        unlike = {str: _TEXTS, float: _FRACTIONS}.get(inside[0])
        made = chance.sample(unlike, length) if unlike else [one(inside[0]) for _ in range(length)]
        return {*made} if origin in _SETS else tuple(made) if origin is tuple else made
    if origin in _MAPPINGS and len(inside) == 2:
        return {one(inside[0]): one(inside[1]) for _ in range(length)}
    if isinstance(kind, type) and issubclass(kind, enum.Enum) and len(kind):
        return chance.choice([*kind])
    if isinstance(kind, type) and any(hasattr(kind, name) for name in _OF_FIELDS):
        try:
            given = {name: one(each) for name, each in _needed(kind)}
            for name, each in _hints(kind).items():
                with suppress(_Unknown):
                    given.setdefault(name, one(each))
            return kind(**given)
        except _Unknown:
            raise
        except Exception as error:  # it refuses what is made
            raise _Unknown(kind) from error
    raise _Unknown(kind)


def _array_home(kind: Any) -> str:
    """Return "torch" or "numpy" for the type of an array, else ''."""
    for each in (kind, typing.get_origin(kind)):
        name = f"{getattr(each, '__module__', '')}.{getattr(each, '__qualname__', '')}"
        if name in ("numpy.ndarray", "torch.Tensor"):
            return name.partition(".")[0]
    return "numpy" if str(kind).startswith("numpy.typing.ArrayLike") else ""


def _array(home: str, length: int, content: str, chance: random.Random) -> Any:
    import numpy

    generator = numpy.random.RandomState(chance.randrange(1000))
    made: Any = generator.randint(0, 3, length)
    if content == "fractions":
        made = generator.randint(0, 9, length) / 8
    elif content == "rows":
        made = generator.dirichlet((1.0,) * _COLUMNS, length).round(3)
    if home == "numpy":
        return made
    import torch

    return torch.as_tensor(made).float() if made.dtype.kind == "f" else torch.as_tensor(made)
