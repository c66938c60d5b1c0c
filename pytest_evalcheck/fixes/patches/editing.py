"""Edits of the source of a module: its text with them, and the code of its functions."""

from __future__ import annotations

import ast
import importlib
import re
import textwrap
from collections.abc import Iterable, Mapping
from functools import cache
from types import CodeType, ModuleType

from pytest_evalcheck.fixes.patches.patch import Edit


class PatchError(Exception):
    """A patch cannot be applied. The message names the patch or its place, what was expected, and what was found."""


def source_of(module: ModuleType) -> str:
    """The text of a module.

    Raises:
        PatchError: where it is not available.
    """
    loader = getattr(module, "__loader__", None)
    try:
        text = loader.get_source(module.__name__) if hasattr(loader, "get_source") else None  # type: ignore[union-attr]
    except (OSError, ImportError):
        text = None
    if text is None:
        raise PatchError(f"the source of {module.__name__} is not available, so that no patch can edit it")
    return str(text)


def edited(module: str, edits: Mapping[str, Iterable[Edit]]) -> str:
    """The text of a module with edits; ``edits`` are by the path in it, such as ``Metric.update``, '' for itself.

    Raises:
        PatchError: where a function or a part of the source is missing, or stands there more than once.
    """
    text = source_of(importlib.import_module(module))
    for path, several in edits.items():
        for edit in several:
            text = _edited(module, text, path, edit)
    return text


def code_of(text: str, path: str, filename: str) -> CodeType:
    """The code of a function in the text of a module.

    Raises:
        PatchError: where there is no such function.
    """
    code = _compiled(text, filename)
    first = _first_line(definition(text, path))
    *outer, name = path.split(".")
    for part in outer:
        code = next(one for one in _codes(code) if one.co_name == part)
    found = [one for one in _codes(code) if one.co_name == name and one.co_firstlineno == first]
    if not found:
        raise PatchError(f"{filename} has no function {path}")
    return found[0]


def definition(text: str, path: str, module: str = "") -> ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef:
    """The last definition of a function or class in the text of a module, also in a block such as ``if``.

    Raises:
        PatchError: where there is none.
    """
    node: ast.AST = _parsed(text)
    for part in path.split("."):
        found = [one for one in _definitions(node) if one.name == part]
        if not found:
            raise PatchError(f"{module or 'the module'} has no {path}")
        node = found[-1]
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    return node


@cache
def _parsed(text: str) -> ast.AST:
    return ast.parse(text)


@cache
def _compiled(text: str, filename: str) -> CodeType:
    return compile(text, filename, "exec", dont_inherit=True)


def _codes(code: CodeType) -> list[CodeType]:
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def _first_line(node: ast.AST) -> int:
    decorators = getattr(node, "decorator_list", [])
    return int(min([node.lineno, *(one.lineno for one in decorators)]))  # type: ignore[attr-defined]


def _definitions(node: ast.AST) -> Iterable[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """The definitions in a body, not those inside of other definitions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield child
        else:
            yield from _definitions(child)


def _edited(module: str, text: str, path: str, edit: Edit) -> str:
    lines = text.splitlines(keepends=True)
    node = definition(text, path, module) if path else _parsed(text)
    if edit.how == "append":
        last = node.body[-1] if path else None  # type: ignore[attr-defined]
        at = last.end_lineno if last else len(lines)
        indent = " " * (last.col_offset if last else 0)
        gap = "\n" if path else "\n\n"
        return "".join([*lines[:at], gap, _indented(edit.put, indent), *lines[at:]])
    statements = node.body  # type: ignore[attr-defined]
    if edit.how in ("begin", "body"):
        has_docstring = path and ast.get_docstring(node) is not None  # type: ignore[arg-type]
        rest = statements[1:] if has_docstring else statements
        first = rest[0].lineno - 1 if rest else statements[0].end_lineno
        last_line = statements[-1].end_lineno if edit.how == "body" else first
        indent = " " * statements[0].col_offset
        return "".join([*lines[:first], _indented(edit.put, indent), *lines[last_line:]])
    begin, end = (_first_line(node) - 1, node.end_lineno) if path else (0, len(lines))  # type: ignore[attr-defined]
    part = "".join(lines[begin:end])
    start, stop = _place(f"{module}:{path}", part, edit.find)
    row = begin + part.count("\n", 0, start)
    if edit.how == "replace":
        indent = re.match(r"\s*", lines[row]).group()  # type: ignore[union-attr]
        put = textwrap.indent(edit.put, indent).removeprefix(indent)
        return "".join([*lines[:begin], part[:start], put, part[stop:], *lines[end:]])
    statement = _statement(node, row + 1)
    indent = " " * statement.col_offset
    at = _first_line(statement) - 1 if edit.how == "before" else statement.end_lineno
    return "".join([*lines[:at], _indented(edit.put, indent), *lines[at:]])


def _indented(code: str, indent: str) -> str:
    return textwrap.indent(code.strip("\n"), indent) + "\n"


def _place(where: str, text: str, find: str) -> tuple[int, int]:
    """The place of a part of a source, of which the indents of lines are not compared."""
    pattern = r"\s*\n\s*".join(re.escape(line.strip()) for line in find.strip("\n").splitlines())
    found = list(re.finditer(pattern, text))
    if len(found) != 1:
        times = "does not have" if not found else f"has {len(found)} times"
        raise PatchError(f"{where} {times} the line that is edited: {find.strip().splitlines()[0].strip()!r}")
    return found[0].span()


def _statement(node: ast.AST, line: int) -> ast.stmt:
    """The innermost statement that covers a line."""
    covering = [
        one
        for one in ast.walk(node)
        if isinstance(one, ast.stmt) and one is not node and _first_line(one) <= line <= (one.end_lineno or 0)
    ]
    return min(covering, key=lambda one: (one.end_lineno or 0) - _first_line(one))
