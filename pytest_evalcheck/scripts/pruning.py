"""The tree of a definition without what a script does not need: annotations, long docstrings, unread fields."""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Mapping
from typing import Any, TypeVar

_Definition = TypeVar("_Definition", ast.FunctionDef, ast.ClassDef)


def shortened(tree: Any) -> Any:
    """Return a tree without annotations, whose types a script need not import, with one line of each docstring."""
    return _Shortened().visit(tree)


class _Shortened(ast.NodeTransformer):
    def __init__(self) -> None:
        self._in_class = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        before, self._in_class = self._in_class, False
        node.body = _documented(node.body)
        self.generic_visit(node)
        self._in_class = before
        node.returns = None
        arguments = node.args
        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
            if one is not None:
                one.annotation = None
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        before, self._in_class = self._in_class, True
        node.body = _documented(node.body)
        node.body = [node.body[0], *(line for line in node.body[1:] if not _is_text(line))]
        self.generic_visit(node)
        self._in_class = before
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if self._in_class:  # a field of a dataclass
            if "ClassVar" not in ast.unparse(node.annotation):
                node.annotation = ast.Name("object", ast.Load())
            else:
                node.annotation = ast.Constant("ClassVar")
            return node
        if node.value is None:
            return ast.Pass()
        return ast.copy_location(ast.Assign([node.target], node.value), node)


def _is_text(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)


def _documented(body: list[ast.stmt]) -> list[ast.stmt]:
    """A body whose docstring is its first line."""
    match body[0]:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return [ast.Expr(ast.Constant(text.strip().partition("\n")[0])), *body[1:]]
    return body


def pruned(tree: Any, fields: frozenset[str], read: frozenset[str], makes_record: Callable[[ast.expr], bool]) -> Any:
    """Return a tree without those ``fields`` of records that are not ``read``, and without what only they named."""
    tree = _Pruned(fields, fields - read, makes_record).visit(tree)
    while _drop_unread(tree):
        pass
    return tree


class _Pruned(ast.NodeTransformer):
    def __init__(
        self, fields: frozenset[str], unused: frozenset[str], makes_record: Callable[[ast.expr], bool]
    ) -> None:
        self._fields, self._unused, self._makes_record = fields, unused, makes_record

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if self._makes_record(node.func):
            node.keywords = [one for one in node.keywords if one.arg not in self._unused]
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        """Prune a dict whose keys may all be fields of a record."""
        self.generic_visit(node)
        names = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
        named = [name for name, key in zip(names, node.keys, strict=True) if key is not None]
        if named and all(name in self._fields for name in named):
            kept = [i for i, name in enumerate(names) if name not in self._unused]
            node.keys, node.values = [node.keys[i] for i in kept], [node.values[i] for i in kept]
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        self.generic_visit(node)
        match node.targets:
            case [ast.Subscript(value=ast.Name(), slice=ast.Constant(value=str(name)))] if name in self._unused:
                return None
        return node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        self.generic_visit(node)
        return node if node.body or node.orelse else None


def _drop_unread(tree: Any) -> bool:
    """Drop functions, classes and plain values that a function binds and never reads; whether there were any."""
    changed = False
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        read = {
            node.id for node in ast.walk(function) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store)
        }
        kept = [line for line in function.body if not _is_unread(line, read)]
        changed = changed or len(kept) < len(function.body)
        function.body = kept or [ast.Pass()]
    return changed


_INERT = (ast.Constant, ast.Name, ast.Dict, ast.List, ast.Tuple, ast.Set, ast.UnaryOp, ast.unaryop, ast.expr_context)
"""Expressions without an effect: reading an attribute may have one."""


def _is_unread(line: ast.stmt, read: set[str]) -> bool:
    match line:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return name not in read
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name not in read and all(isinstance(node, _INERT) for node in ast.walk(value))
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return len(names) == 1 and (names[0].asname or names[0].name).partition(".")[0] not in read
    return False


def without_options(method: Any, named: Container[str]) -> Any:
    """A method without those of its options that nothing names: they have their defaults."""
    arguments = method.args
    constants: dict[str, ast.Constant] = {}
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if isinstance(default, ast.Constant) and one.arg not in named:
            constants[one.arg] = default
    kept = [i for i, one in enumerate(arguments.kwonlyargs) if one.arg not in constants]
    arguments.kwonlyargs = [arguments.kwonlyargs[i] for i in kept]
    arguments.kw_defaults = [arguments.kw_defaults[i] for i in kept]
    return _Folded(constants).visit(method)


class _Folded(ast.NodeTransformer):
    def __init__(self, constants: Mapping[str, ast.Constant]) -> None:
        self._constants = constants

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._constants.get(node.id, node) if isinstance(node.ctx, ast.Load) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        return (node.body if node.test.value else node.orelse) if isinstance(node.test, ast.Constant) else node
