"""The source of functions and classes of a file of targets, with what they name."""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import textwrap
import types
from collections.abc import Iterable
from typing import Any

from pytest_evalcheck.reports.case_codec import is_plain, literal
from pytest_evalcheck.scripts.literals import Unwritable, Writer


def definitions(things: Iterable[Any], writer: Writer) -> tuple[list[str], set[str]]:
    """The definitions of these functions and classes and of all that they name, and their imports.

    Raises:
        Unwritable: where one has no source, stands inside of a function, or names something of the suite.
    """
    found: dict[str, str] = {}
    imports: set[str] = set()
    for thing in things:
        _define(thing, writer, found, imports)
    return list(found.values()), imports


def _define(thing: Any, writer: Writer, found: dict[str, str], imports: set[str]) -> None:
    name = thing.__qualname__
    if name in found:
        return
    try:
        source = textwrap.dedent(inspect.getsource(thing))
    except (OSError, TypeError) as error:
        raise Unwritable(f"{name}, whose source is not to be had") from error
    module = vars(sys.modules[thing.__module__])
    found_after: dict[str, str] = {}
    for used in _globals(source):
        if used == name or used in found or used not in module:
            if used != name and used not in module and not hasattr(builtins, used):
                continue
            continue
        _name(used, module[used], thing.__module__, writer, found, found_after, imports)
    found.update(found_after)
    found[name] = source.rstrip()


def _name(
    name: str, value: Any, module: str, writer: Writer, found: dict[str, str], own: dict[str, str], imports: set[str]
) -> None:
    if isinstance(value, types.ModuleType):
        package = value.__name__
        imports.add(f"import {package}" if package == name else f"import {package} as {name}")
    elif isinstance(value, (type, types.FunctionType)) and value.__module__ == module:
        _define(value, writer, found, imports)
    elif is_plain(value):
        own[name] = f"{name} = {literal(value)}"
    else:
        place = str(getattr(value, "__module__", ""))
        if place.startswith("pytest_evalcheck") or not hasattr(value, "__qualname__"):
            raise Unwritable(f"{name} of {module}")
        made = writer._importable(value)
        imports |= made.imports
        if made.text != name:
            own[name] = f"{name} = {made.text}"
        for thing in made.sources:
            _define(thing, writer, found, imports)


def _globals(source: str) -> list[str]:
    """The names that a definition reads and does not bind, in their order."""
    tree = ast.parse(source)
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    read = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    return [name for name in dict.fromkeys(read) if name not in bound]
