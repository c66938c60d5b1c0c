"""The code of functions in a running process, replaced by that of a changed source."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any

Key = tuple[str, int]
"""The qualified name of a function and its first line."""
NEW_LOCALS = 0x2
"""The flag of the code of functions; that of classes and modules does not have it."""


def codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code and all codes within it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from codes(inner)


def body(code: CodeType) -> tuple[Any, ...]:
    """Return the instructions and constants of a code, without those of codes within it."""
    constants = [(type(each), repr(each)) for each in code.co_consts if not isinstance(each, CodeType)]
    return code.co_code, code.co_names, code.co_varnames, constants


def key(code: CodeType) -> Key:
    return code.co_qualname, code.co_firstlineno


def changed_functions(old: CodeType, new: CodeType) -> dict[Key, CodeType]:
    """Return the new codes of the functions of a module that differ, or what is within them, by the old key.

    Where a function is missing from one of the two, functions are paired by their names and lines, else in order.
    """
    before, after = [*codes(old)], [*codes(new)]
    if [code.co_qualname for code in before] != [code.co_qualname for code in after]:
        named = {key(code): code for code in after}
        before = [code for code in before if key(code) in named]
        after = [named[key(code)] for code in before]
    pairs = zip(before, after, strict=True)
    return {key(a): b for a, b in pairs if b.co_flags & NEW_LOCALS and _whole(a) != _whole(b)}


def _whole(code: CodeType) -> list[Any]:
    return [body(each) for each in codes(code)]


def living_functions() -> list[FunctionType]:
    return [each for each in gc.get_objects() if type(each) is FunctionType]


def replace_code(functions: Iterable[FunctionType], file: str, changed: dict[Key, CodeType]) -> int:
    """Give the functions of a file their new codes, and return their number.

    Raises:
        ValueError: where one of them reads other variables of what is around it.
    """
    count = 0
    for function in functions:
        if function.__code__.co_filename == file and key(function.__code__) in changed:
            function.__code__ = changed[key(function.__code__)]
            count += 1
    return count
