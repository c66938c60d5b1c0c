"""Examples in a docstring: how an object is made, and what it is given.

The examples are run, statement by statement, up to the first that raises. Calls are watched by the profiler of Python,
so that nothing is replaced in the library.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from types import FrameType
from typing import Any

from pytest_evalcheck.discovery.forms import snake_case
from pytest_evalcheck.discovery.inputs import Inputs
from pytest_evalcheck.kinds.common.process_state import same_random_numbers
from pytest_evalcheck.learning.watching import arguments_of

_MOST_CALLS = 50
_USUAL_NAMES = {"np": "numpy", "pd": "pandas", "nn": "torch.nn"}
_MOST_GIVEN = 8
"""Names of one statement that an example does not define."""


@dataclass(kw_only=True)
class Observed:
    """One way to make an object, and the arguments that it was given in an example."""

    construction: str
    """The source that makes it, such as ``Accuracy(task="binary")``; for a function its name or a partial of it."""
    imports: tuple[str, ...] = ()
    """The lines that the construction needs."""
    setup: tuple[str, ...] = ()
    """Methods that are called without arguments before it is fed, such as ``increment`` of a tracker of epochs."""
    calls: list[dict[str, Any]] = field(default_factory=list)
    """By parameter: the arguments of each call that feeds the object."""
    one_sample: bool = False
    """True if the example feeds it with one sample a call; ``calls`` has these as one batch of lists."""
    inputs: tuple[Inputs, ...] = ()
    """Strategies of the rows that a run has given to it."""
    origin: str = ""
    """From where these rows are."""
    described: str = ""
    """The source of its record, with the object as ``made``, where its methods have names of their own."""


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
    watched = _ClassExamples(thing, methods) if inspect.isclass(thing) else _FunctionExamples(thing)
    with same_random_numbers():
        problem = watched.run(blocks)
    found = [_as_one_batch(each) if inspect.isclass(thing) else each for each in watched.found if each.calls]
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


class _Examples:
    """Examples that are run in a namespace like that of the module."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing
        self.names: dict[str, Any] = dict(vars(sys.modules[thing.__module__]))
        self.found: list[Observed] = []
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
                    self._run(statement)
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # a class of the library's author, or the end of the process
                    return (
                        f"its example raised {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
                    )
                self._note(statement)
        return ""

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

    def _import_forgotten(self, statement: ast.stmt) -> None:
        """Names that it uses without an import: of usual modules, of its library, and public ones of its packages."""
        packages = self.thing.__module__.split(".")
        homes = [".".join(packages[:end]) for end in range(len(packages) - 1, 0, -1)]
        for name in _free_names(statement):
            full = _USUAL_NAMES.get(name, name)
            if name in self.names:
                continue
            if name in _USUAL_NAMES and find_spec(full.partition(".")[0]):
                importlib.import_module(full)
            home = next((home for home in homes if name in vars(sys.modules.get(home, builtins))), None)
            if full in sys.modules:
                self.names[name] = sys.modules[full]
                self._imports[name] = f"import {full}" + (f" as {name}" if full != name else "")
            elif home is not None:
                self.names[name] = vars(sys.modules[home])[name]
                self._imports[name] = f"from {home} import {name}"

    def _fed_by_a_loop(self, batches: Sequence[dict[str, Any]]) -> None:
        """Note the batches that the example gives to a loop of another page."""

    def _note(self, statement: ast.stmt) -> None:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias in statement.names:
                line = ast.unparse(
                    ast.Import([alias])
                    if isinstance(statement, ast.Import)
                    else ast.ImportFrom(statement.module, [alias], statement.level)
                )
                self._imports[(alias.asname or alias.name).partition(".")[0]] = line
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Name):
                self._assigned[target.id] = statement.value
        if isinstance(statement, ast.FunctionDef) and not statement.decorator_list:
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
                line = self._imports.get(name) or self._import_of(name)
                if line is None:
                    return None
                lines[line] = None
        renamed = Renamed(functions)
        sources = (renamed.of(self._functions[name]) for name in functions)
        return renamed.of(whole), (*lines, *sources)

    def _import_of(self, name: str) -> str | None:
        module = sys.modules[self.thing.__module__]
        if not hasattr(module, name):
            return None
        value = getattr(module, name)
        if inspect.ismodule(value):
            return f"import {value.__name__}" if value.__name__ == name else f"import {value.__name__} as {name}"
        return f"from {module.__name__} import {name}"


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


class _ClassExamples(_Examples):
    def __init__(self, thing: type, methods: Sequence[str]) -> None:
        super().__init__(thing)
        self._methods = tuple(methods)
        self._made: dict[int, Observed] = {}
        self._alive: list[Any] = []
        self._pending: list[tuple[int, str, dict[str, Any]]] = []
        self._fed: set[int] = set()

    def _run(self, statement: ast.stmt) -> None:
        constructions = [
            node for node in ast.walk(statement) if isinstance(node, ast.Call) and self._value(node.func) is self.thing
        ]
        before = {id(value) for value in self.names.values()}
        self._note_setup(statement)
        try:
            with _profiled(self._watch):
                super()._run(statement)
        finally:
            made = [value for value in self.names.values() if id(value) not in before]
            self._assign(constructions, made)

    def _fed_by_a_loop(self, batches: Sequence[dict[str, Any]]) -> None:
        named = {id(value) for value in self.names.values()}
        for owner in named & self._made.keys():
            self._made[owner].calls += batches

    def _assign(self, constructions: Sequence[ast.Call], made: Sequence[Any]) -> None:
        for call in constructions:
            written = self.written(call)
            if written is None:
                continue
            observed = Observed(construction=written[0], imports=written[1])
            self.found.append(observed)
            own = [value for value in made if self._is_fed(value) and id(value) not in self._made]
            for value in own or [None]:
                self._made[id(value) if value is not None else 0] = observed
                self._alive.append(value)
        latest = self._made.get(0)
        for owner, _, arguments in self._pending:
            observed_or_none = self._made.get(owner) or (latest if constructions else None)
            if observed_or_none is not None and len(observed_or_none.calls) < _MOST_CALLS:
                observed_or_none.calls.append(arguments)
        for observed in self.found:  # a method that takes anything passes it on to one that names its parameters
            named = [call for call in observed.calls if not _by_index(call)]
            observed.calls = named or observed.calls
        self._pending.clear()
        self._made.pop(0, None)

    def _note_setup(self, statement: ast.stmt) -> None:
        """Statements such as ``tracker.increment()`` that come before the object is fed."""
        found = [each.value for each in ast.walk(statement) if isinstance(each, ast.Expr)]
        for node in sorted(found, key=lambda each: (each.lineno, each.col_offset)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            called = node.func
            if not isinstance(called.value, ast.Name):
                continue
            observed = self._made.get(id(self.names.get(called.value.id)))
            if observed is None or observed.calls or id(observed) in self._fed:
                continue
            if called.attr in self._methods or node.args or node.keywords:
                self._fed.add(id(observed))
            elif called.attr not in ("reset", "compute", *observed.setup):
                observed.setup = (*observed.setup, called.attr)

    def _is_fed(self, value: Any) -> bool:
        return any(callable(inspect.getattr_static(value, name, None)) for name in self._methods)

    def _value(self, node: ast.expr) -> Any:
        try:
            return eval(compile(ast.Expression(node), "<example>", "eval"), self.names)
        except Exception:  # a name that the statement defines itself
            return None

    def _watch(self, frame: FrameType) -> None:
        code = frame.f_code
        if code.co_name not in self._methods or not code.co_argcount or len(self._pending) >= _MOST_CALLS:
            return
        owner = frame.f_locals.get(code.co_varnames[0])
        known = owner is not None and (id(owner) in self._made or isinstance(owner, self.thing))
        if known:
            arguments, caller = arguments_of(frame, skip=1), frame.f_back
            inherited = caller is not None and caller.f_code.co_name == code.co_name and self._pending
            if inherited and self._pending[-1][0] == id(owner) and not _by_index(self._pending[-1][2]):
                return  # the method of a base class is called by that of the class, with what it made of a batch
            self._pending.append((id(owner), code.co_name, arguments))


class _FunctionExamples(_Examples):
    def __init__(self, thing: Any) -> None:
        super().__init__(thing)
        self._code = getattr(inspect.unwrap(thing), "__code__", None)
        self._pending: list[dict[str, Any]] = []

    def _run(self, statement: ast.stmt) -> None:
        self._pending.clear()
        with _profiled(self._watch):
            super()._run(statement)
        if self._pending:
            name = self.thing.__name__
            line = f"from {self.thing.__module__} import {name}"
            self.found.append(Observed(construction=name, imports=(line,), calls=list(self._pending[:1])))

    def _watch(self, frame: FrameType) -> None:
        if frame.f_code is self._code and len(self._pending) < _MOST_CALLS:
            self._pending.append(arguments_of(frame))


def _by_index(call: Mapping[str, Any]) -> bool:
    """Return whether some of the arguments of a call have no name."""
    return any(name.isdigit() for name in call)


@contextmanager
def _profiled(watch: Any) -> Iterator[None]:
    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            watch(frame)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)
