"""The source of functions and classes of a file of targets, or of the suite, with all that they name."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from pytest_evalcheck.adapters import record
from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.reports.case_codec import is_plain, literal
from pytest_evalcheck.scripts import helpers
from pytest_evalcheck.scripts.literals import Text, Unwritable, Writer, is_nested, usual_name
from pytest_evalcheck.scripts.pruning import pruned, shortened, without_options

_MOST_LINES = 400
"""A script with more lines of definitions shows nobody anything."""
_PLACEHOLDER = re.compile(r"__definition_(\d+)__")


Made = Callable[[Any], "tuple[Any, tuple[Any, ...], Mapping[str, Any]] | None"]


@dataclass(frozen=True)
class Pruning:
    """The fields of records that a script reads: the others are left out where a record is made."""

    record: Any
    read: frozenset[str]

    @property
    def fields(self) -> frozenset[str]:
        """The names of all fields."""
        return frozenset(one.name for one in fields(self.record))


@dataclass
class _Item:
    """A definition of a script."""

    name: str
    """The name that it should have."""
    fixed: bool
    """True where other text has this name already, so that it cannot be another."""
    tree: list[ast.stmt] = field(default_factory=list)
    methods: dict[str, ast.stmt] = field(default_factory=dict)
    """Methods of a class of the suite that nothing has named so far."""
    needs: dict[int, None] = field(default_factory=dict)
    """The definitions that it names, in their order."""
    locals: set[str] = field(default_factory=set)
    """The names that its functions bind, which no definition that it names may have."""
    after: str = ""
    """Lines that follow it, indented."""
    before: str = ""


class Definitions:
    """The definitions of a script before its `main`: functions and classes as their source, other values as constants.

    Methods of the suite's own classes stand in it only where their name does, unless steps name the class.
    """

    def __init__(
        self,
        is_own: Callable[[str], bool],
        made: Made = lambda _: None,
        pruning: Pruning | None = None,
        *,
        whole: bool = True,
    ) -> None:
        self._is_own, self._pruning, self.whole = is_own, pruning, whole
        self._values = _Values(self, is_own, made)
        self.writer = Writer(self._values)
        """Writes values that hold no results of steps."""
        self._items: list[_Item] = []
        self._places: dict[Any, int] = {}
        self._kept: list[Any] = []
        self._attributes: set[str] = set()
        """All names of attributes and keywords that stand in the script, and texts that may name one."""
        self.imports: set[str] = set()
        self.modules: list[str] = []
        """The modules whose source stands in it."""
        self._undecorated: set[int] = set()
        self._bound: set[str] = set()
        """The names that lambdas bind."""

    def add(self, thing: Any, *, name: str = "", undecorated: bool = False) -> str:
        """Define a function or a class; returns how it is named until `finish`. With a ``name`` it has that one.

        Raises:
            Unwritable: where it has no source, or names what cannot be written.
        """
        nested = is_nested(thing)
        key = thing.__code__ if nested else id(thing)  # one function makes all that have this code
        if key not in self._places:
            if undecorated:
                self._undecorated.add(id(thing))
            item = self._new(key, _Item(name or usual_name(thing), bool(name)))
            self._kept.append(thing)  # no other object may get its id
            self._define(thing, item, nested)
        return self._placeholder(self._places[key])

    def constant(self, name: str, value: Any) -> str:
        """Define a value that is no function and no class; returns how it is named until `finish`."""
        if id(value) in self._places:
            return self._placeholder(self._places[id(value)])
        made = self._values.whole(self.writer.text(value, name))
        self._kept.append(value)
        self._assign(self._new(id(value), _Item(name, fixed=False)), made)
        return self._placeholder(self._places[id(value)])

    def note(self, text: str) -> None:
        """Note the attributes and keywords that other text of the script names."""
        self._attributes |= {*re.findall(r"\.([A-Za-z_]\w*)", text), *re.findall(r"(\w+)=", text)}

    def finish(self, *texts: str) -> tuple[list[str], list[str]]:
        """The definitions in an order in which they run, and ``texts`` with the names of definitions in them.

        Raises:
            Unwritable: where they are long, or where two have one name.
        """
        while self._revive():
            pass
        order = list(self._ordered())
        blocks = {place: self._text(self._items[place]) for place in order}
        if sum(len(text.splitlines()) for text in blocks.values()) > _MOST_LINES:
            first = [self._items[place].name for place in order[:4]]
            raise Unwritable(f"definitions of more than {_MOST_LINES} lines: {', '.join(first)}")
        names = self._names(order)

        def named(text: str) -> str:
            return _PLACEHOLDER.sub(lambda match: names[int(match[1])], text)

        return [named(blocks[place]) for place in order], [named(text) for text in texts]

    # How a definition is found.

    def _new(self, key: Any, item: _Item) -> _Item:
        self._places[key] = len(self._items)
        self._items.append(item)
        return item

    def _placeholder(self, place: int) -> str:
        return f"__definition_{place}__"

    def _define(self, thing: Any, item: _Item, nested: bool) -> None:
        try:
            source = textwrap.dedent(inspect.getsource(thing))
            (tree,) = ast.parse(source).body
        except (OSError, TypeError, SyntaxError, ValueError) as error:
            raise Unwritable(f"{thing.__qualname__}, whose source is not to be had") from error
        if not isinstance(tree, (ast.FunctionDef, ast.ClassDef)):
            raise Unwritable(f"{thing.__qualname__}, which is no definition")
        # What a decorator of targets gives is no function; one that wraps a function says so.
        plain = isinstance(thing, types.FunctionType) and not hasattr(thing, "__wrapped__")
        if nested or plain or id(thing) in self._undecorated:
            tree.decorator_list = []
        module = sys.modules[thing.__module__]
        self.modules += [module.__name__] if module.__name__ not in self.modules else []
        bound = frozenset(thing.__code__.co_freevars) if nested else frozenset()
        tree = shortened(tree)
        if self._pruning is not None:
            tree = pruned(tree, self._pruning.fields, self._pruning.read, lambda node: self._makes_record(node, module))
        of_suite = thing.__module__.startswith("pytest_evalcheck")
        # Code under test calls methods of what a step gives it, by names that do not stand in the script.
        named_by_steps = item.fixed
        if isinstance(tree, ast.ClassDef) and not (nested or named_by_steps) and of_suite and _is_plain_class(thing):
            self._set_aside(tree, item, thing)
        resolver = _Resolver(self, vars(module), item, bound)
        item.tree = [resolver.visit(tree)]
        for name, node in list(item.methods.items()):
            item.methods[name] = _Pending(node, resolver)  # type: ignore[assignment]
        self._attributes |= resolver.attributes
        if nested:
            own = thing.__code__.co_name
            names = thing.__code__.co_freevars
            item.before = ", ".join(["called_" if "called" in names else "called", *names])
            item.after = own

    def resolve(self, function: Any, source: str) -> str:
        """A lambda with the names of definitions for those of its module."""
        item = _Item("", fixed=False)
        resolver = _Resolver(self, function.__globals__, item, frozenset(function.__code__.co_freevars))
        text = ast.unparse(resolver.visit(ast.parse(source, mode="eval")))
        self._attributes |= resolver.attributes
        self._bound |= item.locals
        return text

    def _makes_record(self, function: ast.expr, module: types.ModuleType) -> bool:
        """Return whether a call makes a record: of its class, of an adapter, or of `dataclasses.replace`."""
        assert self._pruning is not None
        found: Any = None
        match function:
            case ast.Name(id=name):
                found = vars(module).get(name)
            case ast.Attribute(value=ast.Attribute(attr=name), attr="of"):
                found = self._pruning.record if name == self._pruning.record.__name__ else None
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                found = getattr(vars(module).get(name), attribute, None)
        adapts = str(getattr(found, "__module__", "")).startswith("pytest_evalcheck.adapters.")
        return adapts or (found is not None and (found is replace or found is self._pruning.record))

    def _set_aside(self, tree: ast.ClassDef, item: _Item, thing: type) -> None:
        """Take methods of a class of the suite out of it until something names them, and what only checks values."""
        kept: list[ast.stmt] = []
        record, read = (self._pruning.record, self._pruning.read) if self._pruning else (None, frozenset())
        for node in tree.body:
            match node:
                case ast.FunctionDef(name="__post_init__") if not _assigns(node):
                    pass
                case ast.FunctionDef(name=name) if not (name.startswith("__") and name.endswith("__")):
                    item.methods[name] = node
                case ast.AnnAssign(target=ast.Name(id=name)) if thing is record and name not in read:
                    pass
                case _:
                    kept.append(node)
        tree.body = kept or [ast.Pass()]

    def _revive(self) -> bool:
        """Put methods back whose name stands in the script; whether there were any."""
        changed = False
        for item in list(self._items):
            for name in [name for name in item.methods if name in self._attributes]:
                pending: Any = item.methods.pop(name)
                cls: Any = item.tree[0]
                cls.body = [node for node in cls.body if not isinstance(node, ast.Pass)]
                node = without_options(pending.node, self._attributes) if self._pruning else pending.node
                cls.body.append(pending.resolver.visit(node))
                self._attributes |= pending.resolver.attributes
                changed = True
        return changed

    def reference(self, name: str, value: Any, item: _Item) -> str:
        """Return how a definition names a value of its module; the value is defined, or imported, where it must be."""
        if isinstance(value, types.ModuleType):
            if self._is_own(value.__name__):
                raise Unwritable(f"the module {value.__name__}, as a value")
            package = value.__name__
            self.imports.add(f"import {package}" if package == name else f"import {package} as {name}")
            return name
        if isinstance(value, functools._lru_cache_wrapper) and self._is_own(value.__module__):
            value = value.__wrapped__
        place = self._places.get(id(value))
        if place is None and is_plain(value):
            key = (name, literal(value))
            if key not in self._places:
                tree: list[ast.stmt] = [_assignment("_", ast.parse(literal(value), mode="eval").body)]
                self._new(key, _Item(name, fixed=False, tree=tree))
            place = self._places[key]
        elif place is None and hasattr(value, "__qualname__"):
            own = self._is_own(str(getattr(value, "__module__", None)))
            if own and isinstance(value, (type, types.FunctionType)) and "<locals>" not in value.__qualname__:
                if "." in value.__qualname__ or value.__name__ == "<lambda>" or is_nested(value):
                    return self._constant_of(name, value, item)
                self.add(value)
                place = self._places[id(value)]
            else:
                return self._imported(name, value, item)
        elif place is None:
            return self._constant_of(name, value, item)
        item.needs[place] = None
        return self._placeholder(place)

    def _constant_of(self, name: str, value: Any, item: _Item) -> str:
        self.constant(name, value)
        item.needs[self._places[id(value)]] = None
        return self._placeholder(self._places[id(value)])

    def _imported(self, name: str, value: Any, item: _Item) -> str:
        made = self.writer.text(value, name)
        if made.text == name:
            self.imports |= made.imports
            return name
        return self._constant_of(name, value, item)

    def _assign(self, item: _Item, made: Text) -> None:
        self.imports |= made.imports
        item.tree = [_assignment("_", ast.parse(made.text, mode="eval").body)]
        item.needs |= dict.fromkeys(int(number) for number in _PLACEHOLDER.findall(made.text))
        self._attributes |= {node.attr for node in ast.walk(item.tree[0]) if isinstance(node, ast.Attribute)}

    # How definitions are written.

    def _ordered(self) -> Iterator[int]:
        done: set[int] = set()

        def visit(place: int) -> Iterator[int]:
            if place in done:
                return
            done.add(place)
            for other in self._items[place].needs:
                yield from visit(other)
            yield place

        for place in range(len(self._items)):
            yield from visit(place)

    def _text(self, item: _Item) -> str:
        (tree,) = item.tree
        if isinstance(tree, ast.ClassDef):
            tree.body = tree.body or [ast.Pass()]
        if isinstance(tree, ast.Assign):
            return f"{self._placeholder(self._items.index(item))} = {ast.unparse(tree.value)}"
        if isinstance(tree, (ast.FunctionDef, ast.ClassDef)) and not item.after:
            tree.name = self._placeholder(self._items.index(item))
        text = ast.unparse(ast.fix_missing_locations(tree))
        if item.after:
            lines = [text, f"{item.after}.__name__ = {item.before.partition(',')[0]}", f"return {item.after}"]
            body = textwrap.indent("\n".join(lines), "    ")
            return f"def {self._placeholder(self._items.index(item))}({item.before}):\n{body}"
        return text

    def _names(self, order: Iterable[int]) -> dict[int, str]:
        """Return the name of each definition by its place: its own, unless a function that names it binds it."""
        users: dict[int, set[str]] = {}
        for item in self._items:
            for place in item.needs:
                users.setdefault(place, set()).update(item.locals)
        taken = {line.split()[-1] for line in self.imports} | _TAKEN | self._bound
        names: dict[int, str] = {}
        for place in sorted(order, key=lambda place: not self._items[place].fixed):
            item = self._items[place]
            name, count = item.name, 1
            others = users.get(place, set()) if item.fixed else users.get(place, set()) | {*helpers.FUNCTIONS}
            while name in taken or name in others:
                if item.fixed:
                    raise Unwritable(f"two definitions of the name {name}")
                count += 1
                name = f"{item.name}_{count}"
            taken.add(name)
            names[place] = name
        return names


_TAKEN = {"main", "same", "close", "visible", "on_ranks", "another_error"}


@dataclass
class _Pending:
    node: ast.stmt
    resolver: _Resolver


class _Resolver(ast.NodeTransformer):
    """Replaces names of a module by those that they have in a script, in each scope that does not bind them."""

    def __init__(self, definitions: Definitions, module: dict[str, Any], item: _Item, bound: frozenset[str]) -> None:
        self._definitions, self._module, self._item = definitions, module, item
        self._scopes: list[set[str]] = [set(bound)]
        self._imported: dict[str, Any] = {}
        """Imports of functions from the suite, by their names."""
        self.attributes: set[str] = set()
        of_package = str(module.get("__name__", "")).startswith("pytest_evalcheck")
        self._strips = not (definitions.whole or of_package)
        item.locals |= bound

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = [self.visit(value) for value in node.decorator_list]
        self._visit_arguments(node.args)
        self._scopes.append(_bound_in(node))
        self._item.locals |= self._scopes[-1]
        body = [self.visit(line) for line in node.body]
        node.body = [line for line in body if line is not None] or [ast.Pass()]
        self._scopes.pop()
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self._visit_arguments(node.args)
        self._scopes.append(_bound_in(node))
        self._item.locals |= self._scopes[-1]
        node.body = self.visit(node.body)
        self._scopes.pop()
        return node

    def _visit_arguments(self, arguments: ast.arguments) -> None:
        arguments.defaults = [self.visit(value) for value in arguments.defaults]
        arguments.kw_defaults = [value and self.visit(value) for value in arguments.kw_defaults]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        if not node.module or not self._definitions._is_own(node.module):
            return node
        for alias in node.names:
            found = getattr(sys.modules.get(node.module), alias.name, None)
            found = sys.modules.get(f"{node.module}.{alias.name}") if found is None else found
            self._imported[alias.asname or alias.name] = found
        return None

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if not isinstance(node.ctx, ast.Load) or not self._is_global(node.id):
            return node
        value = self._value(node.id)
        if value is _NOTHING or value is self._module.get("__builtins__"):
            return node
        return ast.copy_location(ast.Name(self._definitions.reference(node.id, value, self._item), ast.Load()), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        match node.value:
            case ast.Name(id=name) if isinstance(node.ctx, ast.Load) and self._is_global(name):
                value = self._value(name)
                of_suite = isinstance(value, types.ModuleType) and self._definitions._is_own(value.__name__)
                if of_suite or (value is not _NOTHING and _is_opaque(value)):
                    found, known = getattr(value, node.attr, _NOTHING), node.attr if of_suite else f"{name}_{node.attr}"
                    if found is _NOTHING:
                        raise Unwritable(f"{name}.{node.attr}, which is not there")
                    text = self._definitions.reference(known.lower() if not of_suite else known, found, self._item)
                    return ast.copy_location(ast.Name(text, ast.Load()), node)
        self.attributes.add(node.attr)
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = self._resolved(node.func)
        if function is called:
            node.func, node.args = node.args[0], node.args[1:]
        elif self._strips and (described := self._described(node)) is not None:
            return self.visit(described)  # type: ignore[no-any-return]
        self.generic_visit(node)
        return node

    def _described(self, node: ast.expr) -> ast.expr | None:
        """Return the object whose record a call makes, or changes a field of."""
        if not isinstance(node, ast.Call) or not node.args:
            return None
        function = self._resolved(node.func)
        if function is record:
            return node.args[1]
        if function is replace:
            return self._described(node.args[0])
        return node.args[0] if _describes(function) else None

    def _resolved(self, node: ast.AST) -> Any:
        match node:
            case ast.Name(id=name) if self._is_global(name):
                return self._value(name)
            case ast.Attribute(value=value, attr=attr):
                found = self._resolved(value)
                return _NOTHING if found is _NOTHING else getattr(found, attr, _NOTHING)
        return _NOTHING

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        if node.arg is not None:
            self.attributes.add(node.arg)
        self.generic_visit(node)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and node.value.isidentifier():
            self.attributes.add(node.value)  # as `getattr` reads it
        return node

    def _is_global(self, name: str) -> bool:
        return name in self._imported or not any(name in scope for scope in self._scopes)

    def _value(self, name: str) -> Any:
        return self._imported.get(name, self._module.get(name, _NOTHING))


_NOTHING = object()


def _describes(function: Any) -> bool:
    """Return whether a call of a function of this package makes a record of its first argument."""
    if isinstance(getattr(function, "__self__", None), type):
        function = function.__self__
    module = str(getattr(function, "__module__", ""))
    return module.startswith("pytest_evalcheck.adapters.") or (
        isinstance(function, type) and module.startswith("pytest_evalcheck.kinds.") and hasattr(function, "contents")
    )


def _is_opaque(value: Any) -> bool:
    """Return whether a value of a module is an object of the suite, of which a definition reads an attribute."""
    return (
        not isinstance(value, (types.ModuleType, type, types.FunctionType))
        and not is_plain(value)
        and type(value).__module__.startswith("pytest_evalcheck")
    )


def _is_plain_class(thing: type) -> bool:
    """Return whether no base of a class is of a library, which would call its methods by their names."""
    return all(
        base.__module__.startswith(("pytest_evalcheck", "builtins", "abc", "collections", "typing"))
        for base in thing.__mro__
    )


def _assigns(node: ast.FunctionDef) -> bool:
    """Return whether a method writes to its object."""
    return any(
        (isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store))
        or (isinstance(inner, ast.Attribute) and inner.attr == "__setattr__")
        for inner in ast.walk(node)
    )


def _assignment(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _bound_in(function: ast.FunctionDef | ast.Lambda) -> set[str]:
    """The names that a function binds: its arguments, and what its own statements assign, import or define."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    bound = {one.arg for one in every if one is not None}
    pending: list[ast.AST] = [*function.body] if isinstance(function, ast.FunctionDef) else [function.body]
    elsewhere: set[str] = set()
    while pending:
        node = pending.pop()
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                bound.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
                pending += node.decorator_list
                continue
            case ast.Lambda():
                continue
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                bound |= {(alias.asname or alias.name).partition(".")[0] for alias in names}
            case ast.ExceptHandler(name=str(name)):
                bound.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bound.add(name)
            case ast.Global(names=names):
                elsewhere |= {*names}
        pending += ast.iter_child_nodes(node)
    return bound - elsewhere


class _Values:
    """The answers to a writer of constants: they hold no results, and definitions are named by their places."""

    def __init__(self, definitions: Definitions, is_own: Callable[[str], bool], made: Made) -> None:
        self._definitions, self._made = definitions, made
        self.rewritten: Container[str] = _Own(is_own)
        self._parts: list[Text] = []

    def expression(self, value: Any) -> str | None:
        """None: no value here came by a step."""
        del value
        return None

    def made(self, value: Any) -> tuple[Any, tuple[Any, ...], Mapping[str, Any]] | None:
        """Return what was noted; else, for an object of the suite whose attributes are the arguments of its class."""
        known = self._made(value)
        cls = type(value)
        if known is not None or cls.__module__ not in self.rewritten or not hasattr(value, "__dict__"):
            return known
        parameters = list(inspect.signature(cls).parameters)
        return (cls, (), dict(vars(value))) if parameters == list(vars(value)) else None

    def literal(self, value: Any, text: str, hint: str, imports: frozenset[str], parts: Text | None = None) -> str:
        """A container or a tensor, which is put in place by `whole`."""
        del value, hint
        self._parts.append(Text(text, imports=imports | (parts.imports if parts else frozenset())))
        return f"<{len(self._parts) - 1}>"

    def name_of(self, thing: Any) -> str:
        """The name of a definition."""
        return self._definitions.add(thing)

    def resolved(self, function: Any, source: str) -> str | None:
        """Return a lambda with the names of definitions."""
        if function.__module__ not in self.rewritten:
            return None
        return self._definitions.resolve(function, source)

    def whole(self, made: Text) -> Text:
        """A text with its containers in place."""
        text, imports = made.text, made.imports
        while found := re.search(r"<(\d+)>", text):
            part = self._parts[int(found[1])]
            text, imports = text[: found.start()] + part.text + text[found.end() :], imports | part.imports
        return Text(text, imports=imports)


@dataclass(frozen=True)
class _Own:
    is_own: Callable[[str], bool]

    def __contains__(self, name: object) -> bool:
        return self.is_own(str(name))


def definitions(
    things: Iterable[Any], is_own: Callable[[str], bool], made: Made, pruning: Pruning | None, *, whole: bool
) -> tuple[list[str], set[str], list[str]]:
    """Return definitions of functions and classes that a log names, with all that these name.

    With them come the imports that they need, and the modules of which their source is.
    """
    found = Definitions(is_own, made, pruning, whole=whole)
    for thing in things:
        found.add(thing, name=usual_name(thing))
    texts, _ = found.finish()
    return texts, found.imports, found.modules
