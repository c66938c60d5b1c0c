"""Placement of a new object: the source that puts it on the device that a target is asked for."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Collection
from typing import Any


def on_device(
    construction: str, parameters: Collection[inspect.Parameter], evaluate: Callable[[str, dict[str, Any]], Any]
) -> str:
    """The source of a construction with its object on ``device``, a name in that source.

    The ways are those of users: an argument ``device`` of the constructor, then ``.to(device)``. A way is taken where
    it gives an object of the same class on the CPU; where none does, the source is the one that was given.

    Args:
        construction: an expression that calls a class.
        parameters: those of its constructor.
        evaluate: the value of an expression, with names.
    """
    try:
        wanted = type(evaluate(construction, {}))
    except Exception:
        return construction
    for source in _ways(construction, parameters, wanted, evaluate):
        try:
            if type(evaluate(source, {"device": "cpu"})) is wanted:
                return source
        except Exception:  # the argument means something else, or the method refuses
            continue
    return construction


def _ways(
    construction: str,
    parameters: Collection[inspect.Parameter],
    cls: type,
    evaluate: Callable[[str, dict[str, Any]], Any],
) -> list[str]:
    ways = []
    node = ast.parse(construction, mode="eval").body
    names = [each.name for each in parameters]
    if isinstance(node, ast.Call) and "device" in names and len(node.args) <= names.index("device"):
        kept = [each for each in node.keywords if each.arg != "device"]
        for each in kept:
            each.value = _moved(each.value, evaluate)
        node.args = [_moved(each, evaluate) for each in node.args]
        node.keywords = [*kept, ast.keyword("device", ast.Name("device"))]
        ways.append(ast.unparse(node))
    if callable(inspect.getattr_static(cls, "to", None)):
        ways.append(f"{construction}.to(device)")
    return ways


def _moved(argument: ast.expr, evaluate: Callable[[str, dict[str, Any]], Any]) -> ast.expr:
    """An argument, on ``device`` where it is a tensor: a metric that is made there is given tensors that are there."""
    if isinstance(argument, ast.Constant):
        return argument
    source = ast.unparse(argument)
    cls = type(evaluate(source, {}))
    if (cls.__module__, cls.__name__) != ("torch", "Tensor"):
        return argument
    return ast.parse(f"{source}.to(device)", mode="eval").body
