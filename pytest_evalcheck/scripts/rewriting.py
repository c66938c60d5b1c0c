"""Importing modules with every call, attribute, index and operator of theirs going through a tape."""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_evalcheck.scripts.tape import Tape

_HOOK = "__evalcheck_tape__"
_UNTOUCHED = {"super", "locals", "globals", "vars", "dir", "eval", "exec"}
"""Builtins whose result depends on the frame that calls them."""
_AS_THEY_ARE = {
    f"pytest_evalcheck.kinds.common.{name}"
    for name in ("call_facts", "forked_process", "process_ranks", "process_state", "thread_ranks")
}
"""Modules about processes and threads, whose calls are no use of the code under test."""
_OPERATORS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_UNARY = {ast.USub: "-", ast.Invert: "~"}


class Rewriter(ast.NodeTransformer):
    """``f(x)`` becomes ``tape.call(f, x)``, ``x.a`` becomes ``tape.attribute(x, "a")``, and so on."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id in _UNTOUCHED:
            return node  # also what is inside: `super().__init__(...)` is visited as the call around it
        self.generic_visit(node)
        return _of_tape(node, "call", [node.func, *node.args], node.keywords)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or node.attr.startswith("__"):
            return node
        return _of_tape(node, "attribute", [node.value, ast.Constant(node.attr)])

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        return _of_tape(node, "item", [node.value, _as_expression(node.slice)])

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        sign = _OPERATORS.get(type(node.op))
        return node if sign is None else _of_tape(node, "operator", [ast.Constant(sign), node.left, node.right])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        sign = _UNARY.get(type(node.op))
        return node if sign is None else _of_tape(node, "unary", [ast.Constant(sign), node.operand])

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """One comparison: of tensors it is a tensor. A chain of them asks each whether it is true."""
        self.generic_visit(node)
        sign = _OPERATORS.get(type(node.ops[0])) if len(node.ops) == 1 else None
        return node if sign is None else _of_tape(node, "operator", [ast.Constant(sign), node.left, *node.comparators])

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        (target, *others) = node.targets
        if others or not isinstance(target, (ast.Attribute, ast.Subscript)):
            return node
        if isinstance(target, ast.Attribute) and target.attr.startswith("__"):
            return node  # a private name, which the compiler changes
        if isinstance(target, ast.Attribute):
            call = _of_tape(node, "set_attribute", [target.value, ast.Constant(target.attr), node.value])
        else:
            call = _of_tape(node, "set_item", [target.value, _as_expression(target.slice), node.value])
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), node))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node  # annotations stay as they are: dataclasses and type hints read them

    def visit_With(self, node: ast.With) -> ast.AST:
        self.generic_visit(node)
        for item in node.items:
            item.context_expr = _of_tape(item.context_expr, "entered", [item.context_expr])
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.iter = _of_tape(node.iter, "each", [node.iter])
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        if not node.is_async:
            node.iter = _of_tape(node.iter, "each", [node.iter])
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        arguments = node.args
        arguments.defaults = [self.visit(value) for value in arguments.defaults]
        arguments.kw_defaults = [value and self.visit(value) for value in arguments.kw_defaults]
        node.body = [self.visit(line) for line in node.body]
        node.decorator_list = [self.visit(value) for value in node.decorator_list]
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        node.guard = node.guard and self.visit(node.guard)
        node.body = [self.visit(line) for line in node.body]
        return node  # a pattern is no expression


class SourceRewriter(Rewriter):
    """Of a file of targets: its classes stay as they are, since they are code under test."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node


def _of_tape(node: ast.AST, name: str, arguments: Sequence[ast.expr], keywords: Sequence[ast.keyword] = ()) -> ast.Call:
    hook = ast.Attribute(ast.Name(_HOOK, ast.Load()), name, ast.Load())
    call = ast.Call(hook, list(arguments), list(keywords))
    return ast.fix_missing_locations(ast.copy_location(call, node))


def _as_expression(index: ast.expr) -> ast.expr:
    """An index as an expression: ``a[1:2, ...]`` has a slice in it, which is none."""
    if isinstance(index, ast.Slice):
        parts = [part or ast.Constant(None) for part in (index.lower, index.upper, index.step)]
        return ast.Call(ast.Name("slice", ast.Load()), parts, [])
    if isinstance(index, ast.Tuple):
        return ast.Tuple([_as_expression(part) for part in index.elts], ast.Load())
    return index


class Importer(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules that are rewritten, before any other finder does."""

    def __init__(self, tape: Tape, packages: Sequence[str]) -> None:
        self._tape, self._packages = tape, tuple(packages)
        self._asking = False
        self.watchers: dict[str, Callable[[Any], None]] = {}
        """By module of the suite, what is called with it when it was imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        del target
        if self._asking:
            return None
        self._asking = True
        try:
            spec = importlib.util.find_spec(name) if path is None else _found(name, path, self)
        except (ImportError, ValueError, AttributeError):
            return None
        finally:
            self._asking = False
        origin = getattr(spec, "origin", None)
        if spec is None or not origin or not origin.endswith(".py"):
            return None
        of_suite = name.startswith(self._packages) and name not in _AS_THEY_ARE
        if not of_suite and (name.startswith("pytest_evalcheck") or not is_of_targets(Path(origin))):
            return None
        return importlib.util.spec_from_file_location(
            name, origin, loader=self, submodule_search_locations=spec.submodule_search_locations
        )

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:  # noqa: ARG002
        return None

    def exec_module(self, module: ModuleType) -> None:
        path = Path(str(module.__file__))
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        rewriter = Rewriter if module.__name__.startswith(self._packages) else SourceRewriter
        code = compile(rewriter().visit(tree), str(path), "exec", dont_inherit=True)
        self._tape.rewritten.add(module.__name__)
        vars(module)[_HOOK] = self._tape
        exec(code, vars(module))
        if watch := self.watchers.get(module.__name__):
            watch(module)


def _found(name: str, path: Any, without: Importer) -> Any:
    for finder in sys.meta_path:
        if finder is not without and type(finder).__name__ != "AssertionRewritingHook":
            spec = finder.find_spec(name, path, None)
            if spec is not None:
                return spec
    return None


def is_of_targets(path: Path) -> bool:
    """Whether a module is a file of targets, or one that helps them: it imports the suite, or its name is private."""
    if any(part in ("site-packages", "dist-packages") or part.startswith("python3.") for part in path.parts):
        return False
    if path.name.startswith("_") and path.name != "__init__.py":
        return True
    try:
        return b"pytest_evalcheck" in path.read_bytes()
    except OSError:
        return False
