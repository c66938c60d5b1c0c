"""Which steps of a script need no variable: one other step reads them, in whose text they can stand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence

from pytest_evalcheck.scripts.tape import Step

_SHORT = 60
"""The longest value that stands in the text of another step."""
_LONGEST = 100
"""The longest text of a step that has others in it."""
_PURE = (
    *(ast.Expression, ast.Name, ast.Load, ast.Constant, ast.Subscript, ast.Slice),
    *(ast.List, ast.Tuple, ast.BinOp, ast.operator, ast.UnaryOp, ast.unaryop, ast.Compare, ast.cmpop),
)
_READS = {"clone", "detach", "double", "float", "item", "tolist"}
"""Methods of tensors that change nothing."""
_RESULT = re.compile(r"<(\d+)>")


def in_place(steps: Sequence[Step], compared: Iterable[int] = ()) -> dict[int, str]:
    """The texts of the steps that stand in that of their only reader: short values, indices, operators and lists.

    Each is evaluated when its reader is. So nothing may come between them that could change what it reads.
    """
    counts: dict[int, int] = {}
    for step in steps:
        for number in _numbers(step.text):  # each time that it is read
            counts[number] = counts.get(number, 0) + 1
    for number in compared:
        counts[number] = counts.get(number, 0) + 2
    texts: dict[int, str] = {}
    waiting: set[int] = set()
    for step in steps:
        placed = {number: texts[number] for number in _numbers(step.text) if number in texts and number not in waiting}
        for number in dict.fromkeys(_numbers(step.text)):
            if number not in waiting:
                continue
            waiting.remove(number)
            if len(with_texts(step.text, {**placed, number: texts[number]})) <= _LONGEST:
                placed[number] = texts[number]
            else:
                del texts[number]
        once = counts.get(step.number) == 1
        if once and step.literal and len(step.literal) <= _SHORT:
            texts[step.number] = step.literal
        elif once and _is_pure(step):
            texts[step.number] = with_texts(step.text, placed)
            waiting.add(step.number)
        elif not (step.literal or _is_pure(step)):  # it may change what they read
            for number in waiting:
                del texts[number]
            waiting.clear()
    for number in waiting:
        del texts[number]
    return texts


def with_texts(text: str, texts: Mapping[int, str]) -> str:
    """A text with others in place of the results of earlier steps."""

    def put(found: re.Match[str]) -> str:
        inner = texts.get(int(found[1]))
        if inner is None:
            return found[0]
        before, after = text[: found.start()][-1:], text[found.end() :][:1]
        alone = before in "([" and after in ")],"
        return without_brackets(inner) if alone else inner

    return _RESULT.sub(put, text)


def without_brackets(text: str) -> str:
    """An operation without the brackets around it."""
    inner = text[1:-1]
    if not (text.startswith("(") and text.endswith(")")) or "," in inner:
        return text
    try:
        return inner if ast.dump(_tree(inner)) == ast.dump(_tree(text)) else text
    except SyntaxError:
        return text


def _is_pure(step: Step) -> bool:
    """Whether a step is made of indices, operators, displays and such methods alone, none of which changes anything."""
    if not step.keeps or step.error or step.changes or step.library or step.inference or step.world or step.always:
        return False
    try:
        return _changes_nothing(_tree(step.text))
    except SyntaxError:
        return False


def _changes_nothing(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        function = node.func
        reads = isinstance(function, ast.Attribute) and function.attr in _READS and not (node.args or node.keywords)
        return reads and isinstance(function, ast.Attribute) and _changes_nothing(function.value)
    return isinstance(node, _PURE) and all(map(_changes_nothing, ast.iter_child_nodes(node)))


def _tree(text: str) -> ast.Expression:
    return ast.parse(_RESULT.sub(r"_\1", text), mode="eval")


def _numbers(text: str) -> list[int]:
    return [int(number) for number in _RESULT.findall(text)]
