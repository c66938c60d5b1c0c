"""The source of functions and classes of a file of targets, or of the suite, with what they name."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import types
from collections.abc import Iterable
from typing import Any

from pytest_evalcheck.reports.case_codec import is_plain, literal
from pytest_evalcheck.scripts.literals import Unwritable, Writer

_MOST_LINES = 300
"""A script with more lines of definitions shows nobody anything."""


def definitions(things: Iterable[Any], writer: Writer) -> tuple[list[str], set[str]]:
    """The definitions of these functions and classes and of all that they name, and their imports.

    Raises:
        Unwritable: where one has no source, where they are long, or where one names what cannot be written.
    """
    found: dict[str, str] = {}
    imports: set[str] = set()
    for thing in things:
        _define(thing, writer, found, imports, ())
    if sum(len(text.splitlines()) for text in found.values()) > _MOST_LINES:
        raise Unwritable(f"definitions of more than {_MOST_LINES} lines: {', '.join(list(found)[:4])}")
    return list(found.values()), imports


def _define(thing: Any, writer: Writer, found: dict[str, str], imports: set[str], inside: tuple[Any, ...]) -> None:
    nested = "<locals>" in thing.__qualname__
    name = f"make_{thing.__code__.co_name.strip('_')}" if nested else thing.__qualname__
    if name in found or thing in inside:
        return
    try:
        source = textwrap.dedent(inspect.getsource(thing))
        (tree,) = ast.parse(source).body
    except (OSError, TypeError, SyntaxError, ValueError) as error:
        raise Unwritable(f"{thing.__qualname__}, whose source is not to be had") from error
    tree = _Unannotated().visit(tree)
    bound = set(thing.__code__.co_freevars) if nested else set()
    if nested and isinstance(tree, ast.FunctionDef):
        tree.decorator_list = []
    module = vars(sys.modules[thing.__module__])
    for used in _globals(tree):
        if used in module and used not in bound and used not in found and used != thing.__name__:
            _name(used, module[used], writer, found, imports, (*inside, thing))
    text = ast.unparse(ast.fix_missing_locations(tree))
    if nested:
        own = thing.__code__.co_name
        given = ", ".join(["called", *thing.__code__.co_freevars])
        body = textwrap.indent(f"{text}\n{own}.__name__ = called\nreturn {own}", "    ")
        text = f"def {name}({given}):\n{body}"
    found[name] = text


def _name(
    name: str, value: Any, writer: Writer, found: dict[str, str], imports: set[str], inside: tuple[Any, ...]
) -> None:
    """What a definition names: an import, a plain value, or a definition of its own."""
    if isinstance(value, types.ModuleType):
        package = value.__name__
        imports.add(f"import {package}" if package == name else f"import {package} as {name}")
        return
    if is_plain(value):
        found[name] = f"{name} = {literal(value)}"
        return
    if isinstance(value, dict) and all(map(is_plain, value)):
        parts = {key: writer.text(part, str(key)) for key, part in value.items()}
        for thing in (thing for part in parts.values() for thing in part.sources):
            _define(thing, writer, found, imports, inside)
        imports.update(line for part in parts.values() for line in part.imports)
        pairs = (f"{literal(key)}: {part.text}" for key, part in parts.items())
        found[name] = f"{name} = {{{', '.join(pairs)}}}"
        return
    if not hasattr(value, "__qualname__"):
        raise Unwritable(f"{name}, an object of type {type(value).__qualname__} that a definition names")
    made = writer.text(value, name)
    for thing in made.sources:
        _define(thing, writer, found, imports, inside)
    imports |= made.imports
    if made.text != name:
        found[name] = f"{name} = {made.text}"


class _Unannotated(ast.NodeTransformer):
    """Without annotations, which name types that a script need not import; those of fields become texts."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.returns = None
        arguments = node.args
        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
            if one is not None:
                one.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(ast.unparse(node.annotation))
        return node


def _globals(tree: ast.AST) -> list[str]:
    """The names that a definition reads and does not bind, in their order."""
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    read = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    return [name for name in dict.fromkeys(read) if name not in bound]
