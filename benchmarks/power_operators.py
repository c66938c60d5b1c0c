# ruff: noqa: ARG001, SIM102
"""Faults of evaluation code as changes of a syntax tree: what `power.py` plants in the source of libraries.

An operator gets a node, and yields what may stand in its place. `FORMULA` holds those that change what is computed, and
would be found by a test of the value alone; the others change how samples are handled. Names that begin with two
underscores are functions of `HELPERS`, which the process of a trial puts among the builtins.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Kinds = Mapping[str, set[str]]
"""Kinds of the values that were seen of each local name of a function: "rows", "mask", "floats"."""
Operator = Callable[[ast.AST, Kinds], Iterator[Any]]
OPERATORS: dict[str, Operator] = {}
FORMULA = ("arithmetic", "other function", "constant", "condition")


def _operator(function: Operator) -> Operator:
    OPERATORS[function.__name__.replace("_", " ")] = function
    return function


def _code(text: str, **parts: ast.expr) -> ast.expr:
    """An expression; names in it are replaced by these parts."""

    class Filled(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return copy.deepcopy(parts[node.id]) if node.id in parts else node

    return Filled().visit(ast.parse(text, mode="eval").body)  # type: ignore[no-any-return]


def _called(node: ast.AST) -> tuple[str, ast.expr | None]:
    """The last name of what a call calls, and its receiver: that of a method, or the first argument of a function."""
    if not isinstance(node, ast.Call):
        return "", None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    of_module = isinstance(node.func, ast.Name) or ast.unparse(node.func).split(".")[0] in ("torch", "np", "numpy")
    if not of_module and isinstance(node.func, ast.Attribute):
        return name, node.func.value
    first = node.args[0] if node.args and not isinstance(node.args[0], ast.Starred) else None
    return name, first


def _renamed(node: ast.Call, name: str) -> ast.Call:
    new = copy.deepcopy(node)
    if isinstance(new.func, ast.Attribute):
        new.func.attr = name
    else:
        new.func = ast.Name(name, ast.Load())
    return new


def _seen(node: ast.AST, kinds: Kinds, *wanted: str) -> bool:
    return isinstance(node, ast.Name) and bool(kinds.get(node.id, set()) & {*wanted})


@_operator
def mean_of_means(node: ast.AST, kinds: Kinds) -> Iterator[Any]:
    name, receiver = _called(node)
    if name == "sum" and receiver is not None and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield _renamed(node, "mean")
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and not isinstance(node.value, ast.Constant):
        yield ast.AugAssign(node.target, node.op, _code("__one_like__(x)", x=node.value))


@_operator
def earlier_batches_forgotten(node: ast.AST, kinds: Kinds) -> Iterator[Any]:
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
        yield ast.Assign([node.target], node.value)
    name, receiver = _called(node.value) if isinstance(node, ast.Expr) else ("", None)
    if name in ("append", "extend") and isinstance(receiver, ast.Attribute):
        yield [ast.parse(f"{ast.unparse(receiver)}.clear()").body[0], node]


@_operator
def statement_dropped(node: ast.AST, kinds: Kinds) -> Iterator[Any]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ast.Pass()
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute | ast.Subscript):
        yield ast.Pass()


@_operator
def rows_dropped(node: ast.AST, kinds: Kinds) -> Iterator[Any]:
    """Drop rows at the beginning of a function, from all of its arguments that have some."""
    if not isinstance(node, ast.FunctionDef):
        return
    names = [each.arg for each in node.args.args if "rows" in kinds.get(each.arg, ())]
    if not names:
        return
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    for kept in ("__but_last__", "__but_first__", "__even__"):
        line = ast.parse(f"{', '.join(names)}, = {kept}({', '.join(names)})").body[0]
        yield ast.FunctionDef(**{**vars(node), "body": [line, *body]})


@_operator
def lost_clone(node: ast.AST, kinds: Kinds) -> Iterator[Any]:
    name, receiver = _called(node)
    if name in ("clone", "copy", "deepcopy", "contiguous", "detach", "list", "dict") and receiver is not None:
        yield receiver


@_operator
def stale_result(node: ast.AST, kinds: Kinds) -> Iterator[Any]:
    """The result of an earlier call whose result had the same shape, as of a cache with that key."""
    if isinstance(node, ast.Call) and not _called(node)[0].startswith("__"):
        place = f"{node.lineno}:{node.col_offset}"
        yield _code(f"__kept__({place!r}, lambda: y)", y=node)


@_operator
def in_place(node: ast.AST, kinds: Kinds) -> Iterator[Any]:
    methods = {ast.Add: "add_", ast.Sub: "sub_", ast.Mult: "mul_", ast.Div: "div_"}
    if isinstance(node, ast.BinOp) and type(node.op) in methods and _seen(node.left, kinds, "floats", "rows"):
        yield _code(f"__in_place__(a, {methods[type(node.op)]!r}, b)", a=node.left, b=node.right)
    name, receiver = _called(node)
    if name in ("clamp", "clip", "masked_fill", "abs", "exp", "log", "sqrt", "sigmoid", "relu", "softmax", "squeeze"):
        if isinstance(node, ast.Call) and receiver is not None:
            yield _code("__write_into__(x, y)", x=receiver, y=node)
    if name in ("sorted", "sort") and receiver is not None:
        yield _code("__write_into__(x, y)", x=receiver, y=node)  # type: ignore[arg-type]


@_operator
def float16_sum(node: ast.AST, kinds: Kinds) -> Iterator[Any]:
    name, receiver = _called(node)
    sums = ("sum", "mean", "cumsum", "matmul", "mm", "dot", "einsum", "softmax", "log_softmax", "cross_entropy", "std")
    if name in sums and receiver is not None:
        yield _code("__in_float16__(lambda: y)", y=node)  # type: ignore[arg-type]
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and not isinstance(node.value, ast.Constant):
        yield ast.AugAssign(node.target, node.op, _code("__in_float16__(lambda: y)", y=node.value))


_AXES = {-1: 0, 0: -1, 1: 0, 2: 1, -2: -1}


@_operator
def wrong_axis(node: ast.AST, kinds: Kinds) -> Iterator[Any]:
    if isinstance(node, ast.keyword) and node.arg in ("dim", "axis"):
        axis = _integer(node.value)
        if axis is not None:
            yield ast.keyword(node.arg, ast.Constant(_AXES.get(axis, 0)))
    name, _ = _called(node)
    takes = ("sum", "mean", "argmax", "argmin", "softmax", "amax", "cumsum", "size", "squeeze", "flip", "argsort")
    if isinstance(node, ast.Call) and name in takes and node.args and (axis := _integer(node.args[-1])) is not None:
        new = copy.deepcopy(node)
        new.args[-1] = ast.Constant(_AXES.get(axis, 0))
        yield new


def _integer(node: ast.AST) -> int | None:
    sign = -1 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1
    value = node.operand if isinstance(node, ast.UnaryOp) else node
    known = isinstance(value, ast.Constant) and type(value.value) is int
    return sign * value.value if known else None  # type: ignore[attr-defined]


@_operator
def mask_not_applied(node: ast.AST, kinds: Kinds) -> Iterator[Any]:
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        if _seen(node.slice, kinds, "mask") or isinstance(node.slice, ast.Compare):
            yield node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.BitAnd):
        if _seen(node.right, kinds, "mask"):
            yield node.left
        if _seen(node.left, kinds, "mask"):
            yield node.right
    name, receiver = _called(node)
    if name in ("masked_fill", "masked_fill_", "masked_select") and receiver is not None:
        yield receiver
    if name == "where" and isinstance(node, ast.Call) and len(node.args) == 3:
        yield node.args[1]
        yield node.args[2]
    if isinstance(node, ast.comprehension) and node.ifs:
        yield ast.comprehension(node.target, node.iter, [], node.is_async)


@_operator
def factor_ignored(node: ast.AST, kinds: Kinds) -> Iterator[Any]:
    """A weight, or a number of samples."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        yield node.left
        if isinstance(node.op, ast.Mult):
            yield node.right


@_operator
def argument_ignored(node: ast.AST, kinds: Kinds) -> Iterator[Any]:
    if isinstance(node, ast.Call):
        for at, keyword in enumerate(node.keywords):
            if keyword.arg is not None and not isinstance(keyword.value, ast.Constant):
                yield ast.Call(node.func, node.args, node.keywords[:at] + node.keywords[at + 1 :])


@_operator
def item_or_rank_dropped(node: ast.AST, kinds: Kinds) -> Iterator[Any]:
    if isinstance(node, ast.For):
        yield ast.For(node.target, _code("__items_but_last__(x)", x=node.iter), node.body, node.orelse)
    if isinstance(node, ast.comprehension):
        yield ast.comprehension(node.target, _code("__items_but_last__(x)", x=node.iter), node.ifs, node.is_async)
    name, receiver = _called(node)
    if name in ("cat", "stack", "concatenate", "vstack", "hstack", "dim_zero_cat") and isinstance(node, ast.Call):
        if receiver is not None and node.args:
            new = copy.deepcopy(node)
            new.args[0] = _code("__items_but_last__(x)", x=node.args[0])
            yield new


@_operator
def order_lost(node: ast.AST, kinds: Kinds) -> Iterator[Any]:
    name, receiver = _called(node)
    if name in ("sorted", "reversed", "flip", "index_select") and receiver is not None:
        yield _code("list(x)", x=receiver) if name in ("sorted", "reversed") else receiver
    if isinstance(node, ast.keyword) and node.arg in ("descending", "reverse", "stable"):
        if isinstance(node.value, ast.Constant):
            yield ast.keyword(node.arg, ast.Constant(not node.value.value))
    if isinstance(node, ast.For):
        yield ast.For(node.target, _code("__backwards__(x)", x=node.iter), node.body, node.orelse)


@_operator
def cast_dropped(node: ast.AST, kinds: Kinds) -> Iterator[Any]:
    name, receiver = _called(node)
    casts = ("float", "double", "long", "int", "bool", "to", "type_as", "astype", "type")
    if name in casts and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and receiver is not None:
        yield receiver


@_operator
def nearby_bound(node: ast.AST, kinds: Kinds) -> Iterator[Any]:
    if isinstance(node, ast.Slice):
        if node.upper is not None:
            yield ast.Slice(node.lower, _code("__less__(x)", x=node.upper), node.step)
        if node.lower is not None:
            yield ast.Slice(_code("__more__(x)", x=node.lower), node.upper, node.step)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        swapped = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
        if type(node.ops[0]) in swapped:
            yield ast.Compare(node.left, [swapped[type(node.ops[0])]()], node.comparators)
    if _called(node)[0] in ("range", "arange") and isinstance(node, ast.Call) and node.args:
        new = copy.deepcopy(node)
        new.args[-1] = _code("__less__(x)", x=node.args[-1])
        yield new
    if isinstance(node, ast.Call) and _called(node)[0] in ("len", "numel", "size"):
        yield _code("__more__(x)", x=node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and _integer(node.right) == 1:
        yield node.left


@_operator
def condition(node: ast.AST, kinds: Kinds) -> Iterator[Any]:
    if isinstance(node, ast.If):
        yield ast.If(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
    if isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    if isinstance(node, ast.BoolOp):
        yield ast.BoolOp(node.op, node.values[:-1]) if len(node.values) > 2 else node.values[0]


@_operator
def arithmetic(node: ast.AST, kinds: Kinds) -> Iterator[Any]:
    swapped = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult}
    if isinstance(node, ast.BinOp) and type(node.op) in swapped:
        yield ast.BinOp(node.left, swapped[type(node.op)](), node.right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield node.operand


_SWAPPED = {"max": "min", "min": "max", "any": "all", "all": "any", "argmax": "argmin", "argmin": "argmax"}
_SWAPPED |= {"mean": "sum", "floor": "ceil", "log": "exp", "exp": "log", "amax": "amin", "log2": "log", "abs": "exp"}


@_operator
def other_function(node: ast.AST, kinds: Kinds) -> Iterator[Any]:
    name, _ = _called(node)
    if name in _SWAPPED and isinstance(node, ast.Call):
        yield _renamed(node, _SWAPPED[name])


@_operator
def constant(node: ast.AST, kinds: Kinds) -> Iterator[Any]:
    if isinstance(node, ast.keyword) and isinstance(node.value, ast.Constant) and type(node.value.value) is bool:
        yield ast.keyword(node.arg, ast.Constant(not node.value.value))
    if isinstance(node, ast.Constant) and type(node.value) is float:
        yield ast.Constant(2 * node.value if node.value else 1.0)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield ast.Constant(node.value + 1)


def _half(call: Callable[[], Any]) -> Any:
    """The result of a call whose results are kept in half precision; of numbers and arrays as well."""
    from torch.overrides import TorchFunctionMode

    class Half(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return _rounded(func(*map(_rounded, args), **(kwargs or {})))

    with Half():
        return _rounded(call())


def _rounded(value: Any) -> Any:
    import numpy
    import torch

    if isinstance(value, torch.Tensor):
        return value.half().to(value.dtype) if value.is_floating_point() else value
    if isinstance(value, float | numpy.floating):
        return type(value)(numpy.float16(value))
    if isinstance(value, numpy.ndarray) and value.dtype.kind == "f":
        return value.astype("float16").astype(value.dtype)
    return value


def _write_into(place: Any, value: Any) -> Any:
    """A value that is also written into the object that it was made of, as an in-place method does."""
    import numpy
    import torch

    same = getattr(place, "shape", None) == getattr(value, "shape", ())
    if isinstance(place, torch.Tensor) and same and place.dtype == value.dtype:
        return place.detach().copy_(value)
    if isinstance(place, numpy.ndarray) and same:
        place[...] = value
        return place
    if isinstance(place, list) and isinstance(value, list):
        place[:] = value
        return place
    return value


def _changed_in_place(left: Any, method: str, right: Any) -> Any:
    import operator

    value = getattr(operator, {"add_": "add", "sub_": "sub", "mul_": "mul", "div_": "truediv"}[method])(left, right)
    return _write_into(left, value)


def _items(value: Any) -> Any:
    return (
        value
        if hasattr(value, "__getitem__") and hasattr(value, "__len__") and not hasattr(value, "keys")
        else [*value]
    )


def _but_last(value: Any) -> Any:
    items = _items(value)
    return items[:-1] if len(items) > 1 else items


def _cut(cut: Callable[[int], slice]) -> Callable[..., Any]:
    """A function that cuts all of its arguments that have as many rows as the first one that has rows."""

    def rows(*values: Any) -> tuple[Any, ...]:
        sizes = [_size(value) for value in values]
        count = next((size for size in sizes if size > 1), 0)
        return tuple(
            value[cut(count)] if count and size == count else value for value, size in zip(values, sizes, strict=True)
        )

    return rows


def _size(value: Any) -> int:
    sized = hasattr(value, "__getitem__") and not isinstance(value, str | bytes | dict) and getattr(value, "ndim", 1)
    return len(value) if sized and hasattr(value, "__len__") else 0


def _unit_count(value: Any) -> Any:
    """A count of 1, where a number of things was counted or a sum was taken: one for each batch."""
    import torch

    return torch.ones_like(value) if isinstance(value, torch.Tensor) else type(value)(1) if value != 0 else value


_KEPT: dict[Any, Any] = {}


def _kept(place: str, call: Callable[[], Any]) -> Any:
    value = call()
    if not (hasattr(value, "dtype") and getattr(value, "shape", ())):
        return value
    return copy.copy(_KEPT.setdefault((place, tuple(value.shape), str(value.dtype)), copy.deepcopy(value)))


def _number_more(step: int) -> Callable[[Any], Any]:
    return lambda value: value + step if isinstance(value, int | float) or hasattr(value, "dtype") else value


HELPERS: dict[str, Callable[..., Any]] = {
    "__kept__": _kept,
    "__in_float16__": _half,
    "__write_into__": _write_into,
    "__in_place__": _changed_in_place,
    "__items_but_last__": _but_last,
    "__backwards__": lambda value: [*value][::-1],
    "__but_last__": _cut(lambda count: slice(count - 1)),
    "__but_first__": _cut(lambda count: slice(1, None)),  # noqa: ARG005
    "__even__": _cut(lambda count: slice(count // 2 * 2)),
    "__one_like__": _unit_count,
    "__more__": _number_more(1),
    "__less__": _number_more(-1),
}
