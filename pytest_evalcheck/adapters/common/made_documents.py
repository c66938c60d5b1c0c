"""Documents that are made for a task whose data cannot be loaded: the fields that its templates and functions name.

A field has the form in which it is used: a text, a list or a mapping. What its values must be like (an index, a letter,
a number) is tried out: a form is taken if the task accepts documents of it.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pytest_evalcheck.errors import UsageError

Shape = dict[str, Any]
"""By field: ``{}`` for a leaf, ``{"[]": shape}`` for a list, else the shapes of the fields of a mapping."""

_LIST = "[]"
_METHODS_OF_LISTS = ("index", "append", "extend", "sort", "copy", "insert")
_MOST_CHANGES, _MOST_FIELDS = 6, 40
"""Numbers of fields that get another form than a text, and that documents have."""
_WHOLE = re.compile(r"\s*(?:\{\{\s*)?([a-zA-Z_]\w*(?:\.[a-zA-Z_]\w*)*)\s*(?:\}\})?\s*")
_NAMES = ("Ada", "Boris", "Clara", "David", "Emma", "Felix")
_SURNAMES = ("Amber", "Brook", "Cliff", "Dale", "Elm", "Ford", "Glen", "Hill")
_THINGS = ("bread", "paper", "silver", "wool")
_LENGTH = len(_THINGS)
"""Number of entries of a list: of the choices of a question."""


class NoDocuments(ValueError):
    """No documents that a task accepts could be made; the message says what was tried and what to give."""


class NotLoaded(UsageError):
    """A task that cannot be made here; the message says why, and what to give."""


@contextmanager
def or_not_loaded(name: str, why: str, parts: str) -> Iterator[None]:
    """Say of a task for which no documents are made why its own were not loaded, and what to give.

    Raises:
        NotLoaded: where no documents are made in this block.
    """
    try:
        yield
    except NoDocuments as error:
        raise NotLoaded(
            f"the data of {name} cannot be loaded without a network ({why:.80}), and {error}; "
            f"give {parts} of it: task({name!r}, documents=[...])"
        ) from error


def names_in(template: Any) -> list[str]:
    """Return the names of fields that a Jinja template reads, in no special order; none for anything else."""
    if not isinstance(template, str):
        return []
    from jinja2 import Environment, TemplateSyntaxError, meta

    try:
        return sorted(meta.find_undeclared_variables(Environment().parse(template)))
    except TemplateSyntaxError:
        return []


def shape_of(templates: Iterable[Any], lists: Iterable[Any] = ()) -> Shape:
    """Return the fields that templates (texts) and functions of a document read, with their shapes.

    What a template of ``lists`` gives as a whole is a list: ``"{{choices.text}}"``.
    """
    shape: Shape = {}
    for template in templates:
        if isinstance(template, str):
            _add_template(template, shape)
        elif callable(template):
            _add_function(template, shape)
    for template in lists:
        whole = _WHOLE.fullmatch(template) if isinstance(template, str) else None
        below: Shape | None = shape
        for name in whole[1].split(".") if whole else ():
            below = below.setdefault(name, {}) if below is not None and _LIST not in below else None
        if whole and below == {}:
            below[_LIST] = {}
    return shape


def made(
    shape: Shape,
    accepts: Callable[[Sequence[Mapping[str, Any]]], Any],
    answers: Sequence[str],
    count: int = 6,
    first: Sequence[str] = (),
    constants: Sequence[str] = (),
) -> list[Any]:
    """Return documents of a shape that ``accepts`` does not refuse by an error.

    Args:
        shape: the fields.
        accepts: a function of documents that raises an error for those that the task cannot use.
        answers: the names of the fields that hold the right answer.
        count: of documents.
        first: the forms of answers that are tried before the others, of `FORMS`.
        constants: texts that some field may have to hold.

    Raises:
        NoDocuments: where no form of documents is accepted; its cause is the error of those that came furthest.
    """
    trial = _Trial(shape, accepts, count)
    leaves = [path for path in _leaves(shape) if _LIST not in path]
    right = [path for path in leaves if path in answers]
    right = right or [path for path in leaves if path.partition(".")[0] in answers] or leaves[-1:]
    order = [f"answer:{form}" for form in dict.fromkeys([*first, *FORMS])]
    others = dict.fromkeys((path for path in leaves if path not in right), _TEXT)
    forms = (*(f"constant:{each}" for each in constants), *list(_OTHERS)[1:])
    changes = [*((path, form) for form in forms for path in others), *((path, _NOTHING) for path in leaves)]
    for _ in range(_MOST_CHANGES):
        places = {form: trial.place({**others, **dict.fromkeys(right, form)}) for form in order}
        if trial.ended:
            break
        form = max(order, key=places.__getitem__)
        answer = dict.fromkeys(right, form)
        behind = {change: trial.place({**others, **answer, change[0]: change[1]}) for change in changes}
        path, other = max(changes, key=behind.__getitem__, default=("", ""))
        if trial.ended or not path or behind[path, other] <= places[form]:
            break
        others[path], right = other, [each for each in right if each != path]
    if trial.accepted:
        return trial.accepted
    if trial.missing and len(shape) < _MOST_FIELDS:  # a field that only a run shows
        return made({**shape, trial.missing: {}}, accepts, answers, count, first, constants)
    reason = f"{type(trial.furthest).__name__}: {trial.furthest}" if trial.furthest else "it names no field"
    raise NoDocuments(
        f"no documents with {', '.join(shape) or 'no field'} are accepted ({reason:.200})"
    ) from trial.furthest


class _Trial:
    """Documents of one form after the other, until some are accepted."""

    def __init__(self, shape: Shape, accepts: Callable[[Sequence[Mapping[str, Any]]], Any], count: int) -> None:
        self._shape, self._accepts, self._count = shape, accepts, count
        self.accepted: list[Any] = []
        self.missing = ""
        """The name of a field that the documents lack."""
        self.furthest: BaseException | None = None
        """The error of the documents that came furthest."""
        self._place: tuple[int, ...] = ()

    @property
    def ended(self) -> bool:
        """True where documents are accepted, or a field is missing."""
        return bool(self.accepted or self.missing)

    def place(self, forms: Mapping[str, str]) -> tuple[int, ...]:
        """Return where documents of these forms are refused: the lines of all calls, a later place being greater."""
        if self.ended:
            return ()
        documents = [_document(self._shape, forms, number) for number in range(self._count)]
        try:
            self._accepts(documents)
        except (Exception, SystemExit) as error:  # some code ends the process for what it does not know
            name = error.args[0] if isinstance(error, KeyError) and error.args else None
            # A value that is looked up in a table is no field.
            if isinstance(name, str) and name.isidentifier() and name not in repr([self._shape, documents]):
                self.missing = name
            place = tuple(frame.lineno or 0 for frame in traceback.extract_tb(error.__traceback__))
            if self.furthest is None or place > self._place:
                self.furthest, self._place = error, place
            return place
        self.accepted = documents
        return ()


def constants_in(functions: Iterable[Any]) -> list[str]:
    """Return the texts that functions compare with what they read: those of a filter of documents."""
    found: dict[str, None] = {}
    for function in functions:
        found |= {value: None for value in getattr(function, "keywords", {}).values() if isinstance(value, str)}
        for node in ast.walk(_source(inspect.unwrap(getattr(function, "func", function)))):
            if isinstance(node, ast.Compare):
                sides = (node.left, *node.comparators)
                found |= {
                    each.value: None for each in sides if isinstance(each, ast.Constant) and isinstance(each.value, str)
                }
    return list(found)


def _source(function: Any) -> ast.AST:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):
        return ast.Module([], [])


_TEXT, _NOTHING = "text", "nothing"
FORMS: dict[str, Callable[[int], Any]] = {
    "index": lambda number: (number * 3 + 1) % _LENGTH,
    "index of three": lambda number: (number * 2 + 1) % 3,
    "number": lambda number: f"{18 + 11 * number}",
    "letter": lambda number: "ABCD"[(number * 3 + 1) % _LENGTH],
    "chosen": lambda number: _texts("choices", number)[(number * 3 + 1) % _LENGTH],
    "worked": lambda number: f"It takes {3 + number} steps.\n#### {18 + 11 * number}",
    "name": lambda number: _name(number),
    "bit": lambda number: (number + 1) % 2,
    "boxed": lambda number: rf"It is easy. Therefore \boxed{{{18 + 11 * number}}}.",
    "letter in parentheses": lambda number: f"({'ABCD'[(number * 3 + 1) % _LENGTH]})",
    "place": lambda number: str((number * 3 + 1) % _LENGTH),
    "place of two": lambda number: str(number % 2 + 1),
    "place from 1": lambda number: str((number * 3 + 1) % _LENGTH + 1),
    "yes or no": lambda number: ("yes", "no")[number % 2],
    "Yes or No": lambda number: ("Yes", "No")[number % 2],
    "truth": lambda number: number % 2 == 0,
    "True or False": lambda number: ("True", "False")[number % 2],
    "names": lambda number: [_name(number)],
    "list of numbers": lambda number: [f"{18 + 11 * number}"],
    "real": lambda number: 0.5 + number,
    "mapping": lambda number: {"text": _name(number)},
    "marks of choices": lambda _: [1, *[0] * (_LENGTH - 1)],
    _TEXT: lambda number: f"This is text {number}.",
}
"""By name: the answer of a document, by the number of this document."""
_OTHERS: dict[str, Callable[[str, int], Any]] = {
    _TEXT: lambda name, number: f"This is {name} {_name(number)}.",
    "whole": lambda _, number: number + 1,
    "texts": lambda name, number: _texts(name, number),
    "gap": lambda name, number: f"This is _ for {name} {_name(number)}.",
    "digits": lambda _, number: str(number + 2),
    "marks": lambda _, number: FORMS["marks of choices"](number),
    "choices": lambda name, number: {"text": _texts(name, number), "label": [*"ABCD"]},
    "list text": lambda name, number: repr(_texts(name, number)),
    "json": lambda name, number: json.dumps({"text": f"{name} {_name(number)}"}),
}


def _name(number: int) -> str:
    """Return a name, which is that of one document alone, and a part of no other one."""
    more, place = divmod(number, len(_NAMES))
    return f"{_NAMES[place]} {_SURNAMES[more]}" if more < len(_SURNAMES) else f"{_NAMES[place]} of {more} hills"


def _texts(name: str, number: int) -> list[str]:
    return [f"{thing} of {name} by {_name(number)}" for thing in _THINGS]


def _leaves(shape: Shape, before: str = "") -> Iterator[str]:
    for name, below in shape.items():
        path = f"{before}.{name}" if before else name
        if below:
            yield from _leaves(below, path)
        else:
            yield path


def _document(shape: Shape, forms: Mapping[str, str], number: int, before: str = "") -> dict[str, Any]:
    return {
        name: _value(below, forms, number, f"{before}.{name}" if before else name, name)
        for name, below in shape.items()
    }


def _value(shape: Shape, forms: Mapping[str, str], number: int, path: str, name: str) -> Any:
    if _LIST in shape:
        below = shape[_LIST]
        if not below and name.lower() in ("label", "labels"):
            return [*"ABCD"[:_LENGTH]]
        if not below:
            return _texts(name, number)
        return [_value(below, forms, number * _LENGTH + place, f"{path}.{_LIST}", name) for place in range(_LENGTH)]
    if shape:
        return _document(shape, forms, number, path)
    form = forms.get(path, _TEXT)
    if form == _NOTHING:
        return None
    if form.startswith("constant:"):
        return form.removeprefix("constant:")
    if form.startswith("answer:"):
        return FORMS[form.removeprefix("answer:")](number)
    return _OTHERS[form](name, number)


def _add_template(template: str, shape: Shape) -> None:
    from jinja2 import Environment, TemplateSyntaxError, nodes

    try:
        tree = Environment().parse(template)
    except TemplateSyntaxError:
        return
    fields = {name: shape.setdefault(name, {}) for name in names_in(template)}
    items: dict[str, Any] = {}

    def place(node: Any) -> Shape | None:
        """Return the shape of what a node reads; None where it is no part of a document."""
        if isinstance(node, nodes.Name):
            return items.get(node.name, fields.get(node.name))
        if isinstance(node, nodes.Getattr):
            below = place(node.node)
            if node.attr in _METHODS_OF_LISTS and below is not None:
                below.setdefault(_LIST, {})
            method = any(hasattr(cls, node.attr) for cls in (str, list, dict))
            return None if method else _part(below, node.attr)
        if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
            return None  # of a text, or of a list
        if isinstance(node, nodes.Getitem):
            key = node.arg.value if isinstance(node.arg, nodes.Const) else 0
            return _part(place(node.node), key)
        if isinstance(node, nodes.Filter) and node.node is not None:
            return place(node.node)
        return None

    for loop in tree.find_all(nodes.For):
        below = place(loop.iter)
        if below is not None and isinstance(loop.target, nodes.Name) and not (below and _LIST not in below):
            items[loop.target.name] = below.setdefault(_LIST, {})
    for node in tree.find_all((nodes.Getattr, nodes.Getitem)):
        place(node)


def _part(shape: Shape | None, key: Any) -> Shape | None:
    """Return the shape of a part, which is added: an attribute or a key is that of a mapping, a place one of a list."""
    if shape is None:
        return None
    if isinstance(key, str):
        return None if _LIST in shape else shape.setdefault(key, {})
    if shape and _LIST not in shape:
        return None
    inside: dict[str, Any] = shape.setdefault(_LIST, {})
    return inside


def _add_function(function: Any, shape: Shape) -> None:
    """Add what a function of a document or of a data set reads, with the functions of its module that it calls."""
    for tree in _trees(function, set()):
        bound = {argument.arg for node in ast.walk(tree) if isinstance(node, ast.arguments) for argument in node.args}
        bound |= {
            n.target.id
            for n in ast.walk(tree)
            if isinstance(n, (ast.For, ast.comprehension)) and isinstance(n.target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Subscript):
                _place(node, bound, shape)
            _add_default(node, bound, shape)
            for several in _iterated(node):
                below = _place(several, bound, shape)
                if below == {}:
                    below[_LIST] = {}


def _add_default(node: ast.AST, bound: set[str], shape: Shape) -> None:
    """Add a field that is read by ``document.get("name", default)``, where the default is a text or a list."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=name), attr="get"),
            args=[ast.Constant(value=str(key)), ast.Constant(value=str()) | ast.List() as default],
        ) if name in bound:
            below = shape.setdefault(key, {})
            if isinstance(default, ast.List):
                below.setdefault(_LIST, {})


def _trees(function: Any, seen: set[Any]) -> Iterator[ast.AST]:
    """Yield the source of a function, and of each function of its module that it names, also by way of others."""
    function = inspect.unwrap(getattr(function, "func", function))
    code = getattr(function, "__code__", None)
    if code is None or code in seen:
        return
    seen.add(code)
    tree = _source(function)
    yield tree
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            other = getattr(function, "__globals__", {}).get(node.id)
            if inspect.isfunction(other) and other.__module__ == function.__module__:
                yield from _trees(other, seen)


def reads_numbers(functions: Iterable[Any]) -> bool:
    """Return whether functions try to convert a text to a number: then the answers of a task are numbers, not names."""
    nodes = (node for function in functions for tree in _trees(function, set()) for node in ast.walk(tree))
    tried = (each for node in nodes if isinstance(node, ast.Try) for part in node.body for each in ast.walk(part))
    return any(isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("int", "float") for node in tried)


def _iterated(node: ast.AST) -> list[ast.expr]:
    """Return what a node of a function takes for a list: a loop, also by way of `enumerate` and `zip`, or a method."""
    if isinstance(node, (ast.For, ast.comprehension)):
        name = getattr(getattr(node.iter, "func", None), "id", "")
        several = getattr(node.iter, "args", []) if name in ("enumerate", "zip", "reversed") else [node.iter]
        return [each for each in several if isinstance(each, ast.Subscript)]
    called = node.func if isinstance(node, ast.Call) else None
    of_list = isinstance(called, ast.Attribute) and called.attr in ("index", "append", "extend", "sort", "insert")
    return [called.value] if of_list and isinstance(called, ast.Attribute) else []


def _place(node: ast.expr, bound: set[str], shape: Shape) -> Shape | None:
    if isinstance(node, ast.Name):
        return shape if node.id in bound else None
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
        below = _place(node.value, bound, shape)
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if below is shape:
            return shape.setdefault(key, {}) if isinstance(key, str) and key.isidentifier() else None
        return _part(below, key if isinstance(key, str) else 0) if below is not None else None
    return None
