"""Examples in a docstring, a run that is watched: how an object is made, and what it is given.

The examples are run, statement by statement, up to the first that raises.
"""

from __future__ import annotations

import ast
import builtins
import copy
import doctest
import importlib
import inspect
import itertools
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from types import FrameType
from typing import Any

from pytest_evalcheck.discovery.forms import snake_case
from pytest_evalcheck.discovery.observed import Observed
from pytest_evalcheck.kinds.common.process_state import same_random_numbers
from pytest_evalcheck.learning.watching import Object, Seen, Watcher, arguments_of

_MOST_CALLS = 50
_USUAL_NAMES = {"np": "numpy", "pd": "pandas", "nn": "torch.nn"}
_MOST_GIVEN = 8
"""Names of one statement that an example does not define."""


def source_blocks(docstring: str) -> list[str]:
    """The statements of the examples of a docstring, in order: of ``>>>`` lines, or of ``.. testcode::`` blocks."""
    try:
        examples = doctest.DocTestParser().get_examples(docstring)
    except ValueError:  # the author's indentation or prompts are not consistent
        examples = []
    if examples:
        return [example.source for example in examples]
    blocks = re.findall(
        r"^([ \t]*)\.\. testcode::.*\n((?:\1[ \t]+:.*\n)*)((?:\1[ \t]+\S.*\n|[ \t]*\n)+)", docstring + "\n", re.M
    )
    return [textwrap.dedent(body) for *_, body in blocks]


def observe(thing: Any, methods: Sequence[str]) -> tuple[list[Observed], str]:
    """The ways in which the examples of a class or a function use it, and why there are none.

    ``methods`` are the names of the methods that feed an object of the class, such as ``("update",)``.
    Random numbers that an example draws are the same in every run, since a target may consist of them.
    """
    blocks = source_blocks(inspect.getdoc(thing) or "")
    if not blocks:
        return [], "its docstring has no example"
    examples = _Examples(thing, methods)
    with same_random_numbers():
        problem = examples.run(blocks)
    found = [each for each in examples.observed() if each.calls]
    found = [*map(_as_one_batch, found)] if inspect.isclass(thing) else found
    return found, "" if found else problem or "its examples never feed it"


def _as_one_batch(observed: Observed) -> Observed:
    """Join the calls of an example into one batch if each call has one sample of single values."""
    names = [name for name, value in observed.calls[0].items() if value is not None]
    alike = [call for call in observed.calls if all(_is_one_value(call.get(name)) for name in names)]
    if len(alike) < max(2, len(observed.calls)):
        return observed
    columns = {name: [call[name] for call in alike] for name in names}
    same = [name for name in names[2:] if all(value == columns[name][0] for value in columns[name])]
    # What is the same in every call, beside predictions and targets, is an option, or the weight of a sample.
    batch = {name: column for name, column in columns.items() if name not in same}
    return replace(observed, calls=[batch], one_sample=True)


def _is_one_value(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and all(isinstance(each, (bool, int, float)) for each in value.values())
    return isinstance(value, (bool, int, float, str))


class _Arguments(dict[str, Any]):
    """Arguments as they are, which are equal to no others: arrays cannot be compared."""

    __eq__, __ne__, __hash__ = object.__eq__, object.__ne__, object.__hash__  # type: ignore[assignment]


class _Watcher(Watcher):
    """Watches the calls of one function, or of the methods of objects of the package of a class."""

    def __init__(self, thing: Any, methods: Sequence[str]) -> None:
        super().__init__(())
        self._methods = ("__init__", *methods)
        self._packages = (thing.__module__.partition(".")[0],)
        self._is_class = inspect.isclass(thing)
        self._function = getattr(inspect.unwrap(thing), "__code__", None)
        self.calls: list[dict[str, Any]] = []
        """By parameter: the arguments of each call of the function."""

    def _reference(self, owner: Any) -> Callable[[], Any]:
        return lambda: owner  # of an example, what nothing holds is asked for later, too

    def objects(self) -> list[tuple[Any, Object]]:
        """Return the objects that were made or called, with what was done with them."""
        return [(owner(), each) for owner, each in self._objects.values()]

    def _path_of(self, frame: FrameType) -> str:
        code, name = frame.f_code, frame.f_code.co_name
        takes = code.co_argcount + code.co_kwonlyargcount, code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        without = takes == (1, 0) and not name.startswith(("_", "<"))
        watched = code is self._function or (self._is_class and (name in self._methods or without))
        self._codes[id(code)] = (code, name if watched else "")
        return self._codes[id(code)][1]

    def _called(self, frame: FrameType, path: str) -> None:
        owner = frame.f_locals.get(frame.f_code.co_varnames[0]) if self._is_class else None
        if not self._is_class:
            self.calls.append(arguments_of(frame))
        elif type(owner).__module__.partition(".")[0] in self._packages:
            self._called_method(frame, owner, path)

    def _kept(self, frame: FrameType, skip: int = 0, seen: Seen | None = None) -> dict[str, Any]:  # noqa: ARG002
        return _Arguments(arguments_of(frame, skip))


@dataclass
class _Way:
    """One construction in an example, with the objects that it has made."""

    observed: Observed
    owners: Sequence[Any] = ()
    begun: int = 0
    """Calls of the first object in the statement that made it."""
    batches: list[Mapping[str, Any]] = field(default_factory=list)
    """Batches of the example that no object was seen to be given, such as those of a loop of another page."""


class _Examples:
    """Examples that are run one statement after another."""

    def __init__(self, thing: Any, methods: Sequence[str]) -> None:
        self.thing, self._methods = thing, methods
        self.names: dict[str, Any] = {"__name__": thing.__module__}
        self._watcher = _Watcher(thing, methods)
        self._ways: list[_Way] = []
        self._assigned: dict[str, ast.expr] = {}
        self._imports: dict[str, str] = {}
        self._functions: dict[str, ast.FunctionDef] = {}

    def run(self, blocks: Sequence[str]) -> str:
        """Run the statements; the error of the first that raises one."""
        for block in blocks:
            try:
                tree = ast.parse(block)
            except SyntaxError as error:
                return f"its example has a syntax error: {error.msg}"
            for statement in tree.body:
                self._import_forgotten(statement)
                try:
                    self._watch(statement)
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # a class of the library's author, or the end of the process
                    return f"its example raised {type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
                self._note(statement)
        return ""

    def _watch(self, statement: ast.stmt) -> None:
        """Run a statement, and note what its constructions have made."""
        nodes = [each for each in ast.walk(statement) if isinstance(each, ast.Call) and self._is_thing(each.func)]
        before = {id(value) for value in (*self.names.values(), *(owner for owner, _ in self._watcher.objects()))}
        called = len(self._watcher.calls)
        try:
            with self._watcher.watch(most=sys.maxsize):
                self._run(statement)
        finally:
            self._ways += self._made_by(nodes, before)
            if calls := self._watcher.calls[called : called + 1]:
                line = f"from {self.thing.__module__} import {self.thing.__name__}"
                self._ways.append(_Way(Observed(construction=self.thing.__name__, imports=(line,)), batches=[*calls]))

    def _made_by(self, nodes: Sequence[ast.expr], before: Collection[int]) -> Iterator[_Way]:
        objects = self._watcher.objects()
        others = [owner for owner, _ in objects if isinstance(owner, self.thing)]
        new = {id(each): each for each in (*self.names.values(), *others) if id(each) not in before}
        made = [each for each in new.values() if self._is_fed(each)]
        for number, node in enumerate(nodes):
            owners = made[number:] if node is nodes[-1] else made[number : number + 1]
            begun = sum(len(each.calls) for owner, each in objects if owner is owners[0]) if owners else 0
            if (written := self.written(node)) is not None:
                yield _Way(Observed(construction=written[0], imports=written[1]), owners, begun)

    def observed(self) -> Iterator[Observed]:
        """Yield the ways in which the examples have made objects, or called the function, with the calls."""
        objects = {id(owner): each for owner, each in self._watcher.objects()}
        for way in self._ways:
            kept = [owner for owner in way.owners if id(owner) in objects]
            calls = [(owner, call) for owner in kept for call in objects[id(owner)].calls]
            fed = [self._named(call.arguments, owner) for owner, call in calls if call.method in self._methods]
            first = itertools.takewhile(lambda each: not each[1].arguments, calls[way.begun :])
            setup = dict.fromkeys(call.method for owner, call in first if _is_setup(owner, call.method, self._methods))
            yield replace(way.observed, setup=tuple(setup), calls=fed or way.batches)

    def _named(self, arguments: Mapping[str, Any], owner: Any) -> Mapping[str, Any]:
        """Return arguments by the names of the method that feeds: one that takes anything passes them on to it."""
        for method in self._methods if any(map(str.isdigit, arguments)) else ():
            parameters = signature_of(getattr(type(owner), method, None))[1:]
            names = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
            if names:
                places = {str(place): name for place, name in enumerate(names)}
                return {places.get(name, name): value for name, value in arguments.items()}
        return arguments

    def _is_fed(self, value: Any) -> bool:
        of_package = type(value).__module__.partition(".")[0] == self.thing.__module__.partition(".")[0]
        return of_package and any(callable(inspect.getattr_static(value, name, None)) for name in self._methods)

    def _is_thing(self, node: ast.expr) -> bool:
        try:
            return eval(compile(ast.Expression(node), "<example>", "eval"), self.names) is self.thing
        except Exception:  # a name that the statement defines itself
            return False

    def _run(self, statement: ast.stmt) -> None:
        code = compile(ast.Module([statement], []), "<example>", "exec")
        for _ in range(_MOST_GIVEN):
            try:
                exec(code, self.names)
            except NameError as error:
                if not error.name or error.name in self.names:
                    raise
                self.names[error.name] = _Given(self._fed_by_a_loop)
            else:
                return

    def _fed_by_a_loop(self, batches: Sequence[dict[str, Any]]) -> None:
        named = {id(value) for value in self.names.values()}
        for way in self._ways:
            if any(id(owner) in named for owner in way.owners):
                way.batches += batches

    def _import_forgotten(self, statement: ast.stmt) -> None:
        """Give it names without an import: of its module, of usual modules, and public ones of its packages."""
        packages = self.thing.__module__.split(".")
        homes = [".".join(packages[:end]) for end in range(len(packages), 0, -1)]
        for name in (name for name in _free_names(statement) if name not in self.names):
            full = _USUAL_NAMES.get(name, name)
            if name in _USUAL_NAMES and find_spec(full.partition(".")[0]):
                importlib.import_module(full)
            home = next((home for home in homes if name in vars(sys.modules.get(home, builtins))), None)
            value = sys.modules.get(full) if home != homes[0] else None
            if value is None and home is not None:
                value = vars(sys.modules[home])[name]
            if inspect.ismodule(value):
                line = f"import {value.__name__}" + ("" if value.__name__ == name else f" as {name}")
            elif home is not None:
                line = f"from {home} import {name}"
            else:
                continue
            self.names[name], self._imports[name] = value, line

    def _note(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Import() | ast.ImportFrom():
                for alias in statement.names:
                    one = copy.copy(statement)
                    one.names = [alias]
                    self._imports[(alias.asname or alias.name).partition(".")[0]] = ast.unparse(one)
            case ast.Assign(targets=[ast.Name(id=name)]):
                self._assigned[name] = statement.value
            case ast.FunctionDef(decorator_list=[]):
                self._functions[statement.name] = statement

    def written(self, expression: ast.expr) -> tuple[str, tuple[str, ...]] | None:
        """An expression without the names of the example, and the imports that it needs; None where one is left."""
        whole = _Inlined(self._assigned).visit(ast.parse(ast.unparse(expression), mode="eval").body)
        lines: dict[str, None] = {}
        functions: dict[str, str] = {}
        left = [whole]
        while left:
            for name in _free_names(left.pop()):
                if name in self._functions:
                    if name not in functions:
                        functions[name] = f"{name}_of_{snake_case(self.thing.__name__)}"
                        left.append(self._functions[name])
                    continue
                line = self._imports.get(name)
                if line is None:
                    return None
                lines[line] = None
        renamed = Renamed(functions)
        sources = (renamed.of(self._functions[name]) for name in functions)
        return renamed.of(whole), (*lines, *sources)


class _Inlined(ast.NodeTransformer):
    """Names that an example has assigned become what was assigned to them."""

    def __init__(self, assigned: Mapping[str, ast.expr], depth: int = 5) -> None:
        self._assigned, self._depth = assigned, depth

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self._assigned.get(node.id)
        if value is None or self._depth == 0:
            return node
        copied = ast.parse(ast.unparse(value), mode="eval").body
        return _Inlined(self._assigned, self._depth - 1).visit(copied)  # type: ignore[no-any-return]


def _free_names(tree: ast.AST) -> list[str]:
    """The names that a tree takes from outside, without those of Python."""
    nodes = list(ast.walk(tree))
    bound = {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    used = [node.id for node in nodes if isinstance(node, ast.Name) and node.id not in bound]
    return [name for name in dict.fromkeys(used) if name not in vars(builtins)]


class Renamed(ast.NodeTransformer):
    """Functions and imports get other names: those of two sources may be called the same."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def of(self, tree: ast.AST) -> str:
        return ast.unparse(self.visit(copy.deepcopy(tree)))

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)

    def visit_alias(self, node: ast.alias) -> ast.alias:
        name = node.asname or node.name
        return ast.alias(node.name, self._names[name]) if name in self._names else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self._names.get(node.name, node.name)
        return self.generic_visit(node)


class _Given:
    """Stand-in for an object that an example uses without making it, such as a loop: it notes the batches it is given.

    Any attribute, call or item of it is the object itself.
    """

    def __init__(self, note: Callable[[Sequence[dict[str, Any]]], None]) -> None:
        self._note = note

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, key: Any) -> Any:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __call__(self, *args: Any, **_: Any) -> Any:
        for batches in args:
            if isinstance(batches, (list, tuple, zip)):
                self._note([call for call in map(parts, itertools.islice(batches, _MOST_CALLS)) if call])
        return self


def parts(batch: Any) -> dict[str, Any]:
    """The parts of a batch, by their position or their name; empty where it has no parts."""
    if isinstance(batch, (list, tuple)) and len(batch) > 1 and all(hasattr(part, "__len__") for part in batch):
        return {str(i): part for i, part in enumerate(batch)}
    return dict(batch) if isinstance(batch, Mapping) and all(isinstance(name, str) for name in batch) else {}


def _is_setup(owner: Any, method: str, feeding: Sequence[str]) -> bool:
    called = inspect.getattr_static(type(owner), method, None)
    return callable(called) and method not in ("reset", "compute", *feeding)


def signature_of(function: Any) -> list[inspect.Parameter]:
    """Return the parameters of a function; none where they are not known."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
