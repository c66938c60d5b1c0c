"""Values as source code: what came by a step by its name, everything else written out."""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import inspect
import re
import sys
import types
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_evalcheck.reports.case_codec import is_plain, literal

MOST_NUMBERS = 2_000
"""A tensor or an array with more of them is not written out."""


class Unwritable(Exception):
    """A value has no form as source code; the text says which."""


@dataclass(frozen=True)
class Text:
    """Source code, and what it needs."""

    text: str
    uses: frozenset[int] = frozenset()
    imports: frozenset[str] = frozenset()
    sources: tuple[Any, ...] = ()

    def __add__(self, other: Text) -> Text:
        return Text("", self.uses | other.uses, self.imports | other.imports, (*self.sources, *other.sources))


class Results(Protocol):
    """The objects that entries of a log have made."""

    @property
    def rewritten(self) -> Container[str]:
        """The modules that a script cannot import."""
        ...

    def expression(self, value: Any) -> str | None:
        """Return how an object is written; None where no entry made it."""
        ...

    def made(self, value: Any) -> tuple[Any, tuple[Any, ...], Mapping[str, Any]] | None:
        """The class and the arguments by which an object of the suite was made."""
        ...

    def literal(self, value: Any, text: str, hint: str, imports: frozenset[str], parts: Text | None = None) -> str:
        """A step for a value that is written out; how it is written from then on."""
        ...

    def name_of(self, thing: Any) -> str:
        """Return the name of a function or a class that the script defines."""
        ...

    def resolved(self, function: Any, source: str) -> str | None:
        """A lambda with what the script defines for the names of its module; None where it keeps these names."""
        ...


def numbers_in(text: str) -> frozenset[int]:
    """The steps whose results stand in a text."""
    return frozenset(int(number) for number in re.findall(r"<(\d+)>", text))


class Writer:
    """Writes the values of one tape."""

    def __init__(self, tape: Results) -> None:
        self._tape = tape

    def text(self, value: Any, hint: str) -> Text:
        """A value; a tensor or an array becomes a variable of this name.

        Raises:
            Unwritable: where it has no form as source code.
        """
        known = self._tape.expression(value)
        if known is not None:
            return Text(known, numbers_in(known))
        if type(value) in (list, dict) and value:
            return self._container(value, hint)
        if is_plain(value):
            return Text(literal(value))
        module = type(value).__module__.partition(".")[0]
        if module == "torch":
            return self._torch_text(value, hint)
        if module == "numpy":
            return self._numpy_text(value, hint)
        if isinstance(value, functools.partial):
            parts = [self.text(part, hint) for part in (value.func, *value.args)]
            named = {name: self.text(part, name) for name, part in value.keywords.items()}
            inside = ", ".join([part.text for part in parts] + [f"{name}={part.text}" for name, part in named.items()])
            return self._joined(f"functools.partial({inside})", [*parts, *named.values()], {"import functools"})
        if type(value) in (list, tuple, set, frozenset) or (isinstance(value, tuple) and hasattr(value, "_fields")):
            return self._sequence(value, hint)
        if isinstance(value, enum.Enum):
            cls = self._importable(type(value))
            return Text(f"{cls.text}.{value.name}", imports=cls.imports, sources=cls.sources)
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)):
            return self._importable(value)
        if isinstance(value, types.MethodType):
            return self.callee(value)
        if value is Ellipsis:
            return Text("...")
        if type(value) is object:
            return Text("object()")
        if isinstance(value, (slice, range)):
            parts = [self.text(part, hint) for part in (value.start, value.stop, value.step)]
            return self._joined(f"{type(value).__name__}({', '.join(part.text for part in parts)})", parts)
        if isinstance(value, re.Pattern):
            flags = f", {int(value.flags & ~re.UNICODE)}" if value.flags & ~re.UNICODE else ""
            return Text(f"re.compile({value.pattern!r}{flags})", imports=frozenset({"import re"}))
        if isinstance(value, types.MappingProxyType):
            inner = self.text(dict(value), hint)
            return self._joined(f"types.MappingProxyType({inner.text})", [inner], {"import types"})
        if isinstance(value, functools._lru_cache_wrapper):
            wrapped = value.__wrapped__
            if getattr(wrapped, "__name__", "") != "<lambda>":
                return self._importable(wrapped)
            inner, size = self._lambda(wrapped), value.cache_parameters()["maxsize"]
            return self._joined(f"functools.lru_cache({size})({inner.text})", [inner], {"import functools"})
        if dataclasses.is_dataclass(value) and all(hasattr(value, f.name) for f in dataclasses.fields(value)):
            cls = self._importable(type(value))
            named = {f.name: self.text(getattr(value, f.name), f.name) for f in dataclasses.fields(value) if f.init}
            inside = ", ".join(f"{name}={part.text}" for name, part in named.items())
            return self._joined(f"{cls.text}({inside})", [cls, *named.values()])
        if (made := self._tape.made(value)) is not None:
            cls, args, kwargs = made
            own, given = self._importable(cls), self.arguments(cls, args, kwargs)
            text = self._joined(f"{own.text}({given.text})", [own, given])
            name = self._tape.literal(value, text.text, "made", text.imports, text)
            return Text(name, numbers_in(name))
        raise Unwritable(f"an object of type {type(value).__module__}.{type(value).__qualname__}")

    def callee(self, function: Any) -> Text:
        """Return the source of a callable."""
        known = self._tape.expression(function)
        if known is not None:
            return Text(known, numbers_in(known))
        owner = getattr(function, "__self__", None)
        name = getattr(function, "__name__", "")
        if name and getattr(sys.modules.get("torch"), name, None) is function:  # its builtins name no module
            return Text(f"torch.{name}", imports=frozenset({"import torch"}))
        if owner is not None and not isinstance(owner, types.ModuleType):
            of = self._importable(owner) if isinstance(owner, type) else self.text(owner, "tensor")
            if getattr(owner, name, None) is None or name.startswith("<"):
                raise Unwritable("its name is not that of an attribute")
            return Text(f"{of.text}.{name}", of.uses, of.imports, of.sources)
        return self._importable(function)

    def arguments(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Text:
        """The arguments of a call, in its parentheses."""
        names = _parameters(function)
        parts = [self.text(value, names[i] if i < len(names) else "value") for i, value in enumerate(args)]
        named = {name: self.text(value, name) for name, value in kwargs.items()}
        inside = [part.text for part in parts]
        for name, part in named.items():
            inside.append(f"{name}={part.text}" if name.isidentifier() else f"**{{{name!r}: {part.text}}}")
        return self._joined(", ".join(inside), [*parts, *named.values()])

    def _container(self, value: Any, hint: str) -> Text:
        """A list or a dict, which code under test may change: it becomes a variable, and stays the same object."""
        if is_plain(value):
            return self._variable(value, literal(value), hint, frozenset())
        if isinstance(value, list):
            made = self._sequence(value, hint)
        else:
            keys = [self.text(key, hint) for key in value]
            parts = [self.text(part, str(key)) for key, part in value.items()]
            pairs = ", ".join(f"{key.text}: {part.text}" for key, part in zip(keys, parts, strict=True))
            made = self._joined("{" + pairs + "}", [*keys, *parts])
        name = self._tape.literal(value, made.text, hint, made.imports, made)
        return Text(name, numbers_in(name))

    def _sequence(self, value: Any, hint: str) -> Text:
        parts = [self.text(part, hint) for part in value]
        inside = ", ".join(part.text for part in parts)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            cls = self._importable(type(value))
            return self._joined(f"{cls.text}({inside})", [cls, *parts])
        if isinstance(value, tuple):
            return self._joined(f"({inside},)" if len(parts) == 1 else f"({inside})", parts)
        if isinstance(value, list):
            return self._joined(f"[{inside}]", parts)
        return self._joined(f"{type(value).__name__}([{inside}])", parts)

    def _joined(self, text: str, parts: list[Text], imports: set[str] | None = None) -> Text:
        made = functools.reduce(lambda a, b: a + b, parts, Text("", imports=frozenset(imports or ())))
        return Text(text, made.uses, made.imports, made.sources)

    def _torch_text(self, value: Any, hint: str) -> Text:
        import torch

        needs = frozenset({"import torch"})
        if isinstance(value, torch.nn.Module):
            raise Unwritable(f"a model of type {type(value).__qualname__} that no recorded call made")
        if isinstance(value, torch.Size):
            return Text(repr(tuple(value)))
        if isinstance(value, torch.dtype):
            return Text(repr(value), imports=needs)
        if isinstance(value, torch.device):
            return Text(f"torch.device({str(value)!r})", imports=needs)
        if not isinstance(value, torch.Tensor):
            raise Unwritable(f"an object of type torch.{type(value).__qualname__}")
        return self._variable(value, tensor_text(value), hint, needs)

    def _numpy_text(self, value: Any, hint: str) -> Text:
        import numpy

        needs = frozenset({"import numpy"})
        if isinstance(value, numpy.generic):
            return Text(f"numpy.{type(value).__name__}({literal(value.item())})", imports=needs)
        if isinstance(value, numpy.dtype):
            return Text(f"numpy.dtype({value.name!r})", imports=needs)
        if not isinstance(value, numpy.ndarray):
            raise Unwritable(f"an object of type numpy.{type(value).__qualname__}")
        if value.size > MOST_NUMBERS:
            raise Unwritable(f"an array of {value.size} numbers")
        if value.dtype == object or value.dtype.names:
            raise Unwritable(f"an array of {value.dtype}")
        text = _called("numpy", "array", value.tolist(), value.shape, f"numpy.{value.dtype.name}", _default(value))
        return self._variable(value, text, hint, needs)

    def _variable(self, value: Any, text: str, hint: str, imports: frozenset[str]) -> Text:
        name = self._tape.literal(value, text, hint, imports)
        return Text(name, numbers_in(name))

    def _lambda(self, function: Any) -> Text:
        """A lambda by its source, with what it has from around it as arguments of another one."""
        source, defaults = _bound_defaults(_lambda_source(function), function)
        code = function.__code__
        resolved = self._tape.resolved(function, source)
        read = (node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name))
        names = [name for name in dict.fromkeys(read) if name not in (*code.co_varnames, *code.co_freevars)]
        names, source = (names, source) if resolved is None else ([], resolved)
        named = [self._by_name(name, function.__globals__[name]) for name in names if name in function.__globals__]
        others = dict(zip((name for name in names if name in function.__globals__), named, strict=True))
        source = _renamed(source, {name: made.text for name, made in others.items() if made.text != name})
        around = {
            **{
                name: cell.cell_contents
                for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True)
            },
            **defaults,
        }
        if not around:
            return self._joined(f"({source})", named)
        cells = [self.text(value, name) for name, value in around.items()]
        inside = ", ".join(cell.text for cell in cells)
        return self._joined(f"(lambda {', '.join(around)}: {source})({inside})", [*cells, *named])

    def _by_name(self, name: str, value: Any) -> Text:
        """Return a value that a lambda names, where a script can have it by this name."""
        if isinstance(value, types.ModuleType):
            line = f"import {value.__name__}" + ("" if value.__name__ == name else f" as {name}")
            return Text(name, imports=frozenset({line}))
        if not (hasattr(value, "__qualname__") or is_plain(value)):
            raise Unwritable(f"a lambda that names {name} of its module")
        made = self.text(value, name)
        if numbers_in(made.text):
            raise Unwritable(f"a lambda that names {name} of its module, the result of a call")
        return made

    def _nested(self, function: Any) -> Text:
        """A function that another one has made, by a function that makes it from what it has from around it."""
        names = function.__code__.co_freevars
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        if any(cell is function for cell in cells):
            raise Unwritable(f"{function.__qualname__}, which calls itself")
        parts = [self.text(cell, name) for name, cell in zip(names, cells, strict=True)]
        inside = ", ".join([repr(function.__name__), *(part.text for part in parts)])
        made = self._joined(f"{self._tape.name_of(function)}({inside})", parts)
        return Text(made.text, made.uses, made.imports, (*made.sources, function))

    def _called_into_being(self, cls: type) -> Text | None:
        """A class that a call of `type` has made, as that call; None for one that has a source."""
        try:
            inspect.getsource(cls)
        except (OSError, TypeError):
            pass
        else:
            return None
        own = {name: value for name, value in vars(cls).items() if isinstance(value, types.FunctionType)}
        usual = {"__module__", "__doc__", "__dict__", "__weakref__", "__abstractmethods__", "_abc_impl"}
        if set(vars(cls)) - set(own) - usual:
            return None
        bases = self._sequence(cls.__bases__, "bases")
        functions = {name: self.text(value, name) for name, value in own.items()}
        inside = ", ".join(f"{name!r}: {part.text}" for name, part in functions.items())
        text = self._joined(f"type({cls.__name__!r}, {bases.text}, {{{inside}}})", [bases, *functions.values()])
        name = self._tape.literal(cls, text.text, cls.__name__, text.imports, text)
        return Text(name, numbers_in(name))

    def _importable(self, thing: Any) -> Text:
        """A class, a function or a module by where it is imported from; one of the file of the target by its source."""
        if isinstance(thing, types.ModuleType):
            return Text(thing.__name__, imports=frozenset({f"import {thing.__name__}"}))
        module, name = str(getattr(thing, "__module__", None) or "builtins"), str(getattr(thing, "__qualname__", ""))
        if module == "builtins" and getattr(sys.modules["builtins"], name, None) is thing:
            return Text(name)
        if module == "builtins" and (known := [key for key, value in vars(types).items() if value is thing]):
            return Text(f"types.{known[0]}", imports=frozenset({"import types"}))
        if getattr(thing, "__name__", "") == "<lambda>":
            return self._lambda(thing)
        if module in self._tape.rewritten or module.startswith("pytest_evalcheck"):
            if is_nested(thing):
                return self._nested(thing)
            if isinstance(thing, type) and (made := self._called_into_being(thing)) is not None:
                return made
            if "." in name:
                raise Unwritable(f"{name} of {module}, which is made inside of a function or a class")
            return Text(self._tape.name_of(thing), sources=(thing,))
        place = _place_of(thing, module, name)
        if place is None:
            called = name or f"an object of type {type(thing).__qualname__}"
            raise Unwritable(f"{called} of {module}, which cannot be imported by its name")
        package, top = place
        if package in ("torch", "numpy") or package.startswith("torch."):
            return Text(f"{package}.{name}", imports=frozenset({f"import {package}"}))
        return Text(name, imports=frozenset({f"from {package} import {top}"}))


def _lambda_source(function: Any) -> str:
    """The text of a lambda.

    Raises:
        Unwritable: where it is not the only one of its arguments in its lines.
    """
    try:
        lines, first = inspect.findsource(function)
        tree = ast.parse("".join(lines))
    except (OSError, TypeError, SyntaxError) as error:
        raise Unwritable("a lambda whose source is not to be had") from error
    code = function.__code__
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda)
        and node.lineno == code.co_firstlineno
        and _arguments_of(node) == code.co_varnames
    ]
    if len(found) != 1:
        raise Unwritable(f"one of several lambdas at line {first + 1}")
    return ast.unparse(found[0])


def _bound_defaults(source: str, function: Any) -> tuple[str, dict[str, Any]]:
    """Return a lambda whose defaults that are no constants are names, and the values of these names."""
    tree = ast.parse(source, mode="eval")
    arguments, values = tree.body.args, dict(function.__kwdefaults__ or {})  # type: ignore[attr-defined]
    named = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    defaults = function.__defaults__ or ()
    values |= zip(named[len(named) - len(defaults) :], defaults, strict=True)
    bound = {}
    for names, nodes in (
        (named[len(named) - len(defaults) :], arguments.defaults),
        ([one.arg for one in arguments.kwonlyargs], arguments.kw_defaults),
    ):
        for place, (name, node) in enumerate(zip(names, nodes, strict=True)):
            if node is not None and not isinstance(node, ast.Constant):
                nodes[place], bound[name] = ast.Name(name, ast.Load()), values[name]
    return ast.unparse(tree), bound


def _renamed(source: str, names: Mapping[str, str]) -> str:
    """A lambda with other expressions for some names."""
    if not names:
        return source

    class Renamed(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return ast.parse(names[node.id], mode="eval").body if node.id in names else node

    return ast.unparse(Renamed().visit(ast.parse(source, mode="eval")))


def _arguments_of(node: ast.Lambda) -> tuple[str, ...]:
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return tuple(one.arg for one in (*named, *filter(None, (arguments.vararg, arguments.kwarg))))


def _place_of(thing: Any, module: str, name: str) -> tuple[str, str] | None:
    """The shortest package that offers a thing by its name, and the first part of that name."""
    top = name.partition(".")[0]
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        package = ".".join(parts[:length])
        if any(part.startswith("_") for part in package.split(".")[:length]) and length < len(parts):
            continue
        found: Any = sys.modules.get(package)
        try:
            for part in name.split("."):
                found = inspect.getattr_static(found, part) if isinstance(found, type) else getattr(found, part)
        except AttributeError:
            continue
        if found is thing or getattr(found, "__func__", None) is thing:
            return package, top
    return None


def literal_value(value: Any) -> str:
    """A value that holds no result of a call, as it is now.

    Raises:
        Unwritable: where it is neither plain nor a tensor.
    """
    return literal(value) if is_plain(value) else tensor_text(value)


def tensor_text(value: Any) -> str:
    """A tensor of torch as a call.

    Raises:
        Unwritable: where it is large, sparse, quantised or elsewhere than on the CPU.
    """
    import torch

    if not isinstance(value, torch.Tensor):
        raise Unwritable(f"an object of type {type(value).__qualname__}")
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided or value.is_quantized:
        raise Unwritable(f"a tensor of type {type(value).__qualname__} and layout {value.layout}")
    if value.device.type != "cpu" or hasattr(value, "_evalcheck_device"):
        raise Unwritable(f"a tensor on {value.device}")
    if value.numel() > MOST_NUMBERS:
        flat = value.detach().reshape(-1)
        if bool((flat == flat[0]).all()):
            return f"torch.full({tuple(value.shape)}, {literal(flat[0].item())}, dtype={value.dtype})"
        raise Unwritable(f"a tensor of {value.numel()} numbers")
    numbers = value.detach().tolist()
    usual = {float: torch.get_default_dtype(), int: torch.int64, bool: torch.bool}
    flat = value.detach().reshape(-1).tolist()
    same = bool(flat) and usual.get(type(flat[0])) == value.dtype
    text = _called("torch", "tensor", numbers, tuple(value.shape), str(value.dtype), same)
    return text if not value.requires_grad else text[:-1] + ", requires_grad=True)"


def _called(package: str, function: str, numbers: Any, shape: tuple[int, ...], dtype: str, usual: bool) -> str:
    if 0 in shape:
        return f"{package}.zeros({shape}, dtype={dtype})"
    return f"{package}.{function}({literal(numbers)}" + (")" if usual else f", dtype={dtype})")


def _default(value: Any) -> bool:
    flat = value.reshape(-1).tolist()
    names = {float: "float64", int: "int64", bool: "bool"}
    return bool(flat) and names.get(type(flat[0])) == value.dtype.name


def _parameters(function: Any) -> list[str]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def usual_name(thing: Any) -> str:
    """The name of a function or a class in a script; of a nested one that of the function that makes it."""
    return f"make_{thing.__code__.co_name.strip('_')}" if is_nested(thing) else str(thing.__qualname__)


def is_nested(thing: Any) -> bool:
    """Return whether a function was made by another one, also under a name that it got later."""
    if not isinstance(thing, types.FunctionType):
        return False
    if "<locals>" in thing.__qualname__:
        return True
    # A decorated function is written with its decorator.
    return bool(thing.__code__.co_freevars) and not hasattr(thing, "__wrapped__")
