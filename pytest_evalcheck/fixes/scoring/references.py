"""What the code of a function names: globals, what it closes over, imports, and their attributes."""

from __future__ import annotations

import builtins
import dis
import importlib
import importlib.util
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_evalcheck.fixes.scoring.libraries import library

_ABSENT = object()
_FROM_SCOPE = {
    "LOAD_GLOBAL",
    "LOAD_NAME",
    "LOAD_DEREF",
    "LOAD_CLASSDEREF",
    "LOAD_CLOSURE",
    "LOAD_FROM_DICT_OR_DEREF",
    "LOAD_FROM_DICT_OR_GLOBALS",
}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "LOAD_SUPER_METHOD"}


@dataclass(frozen=True)
class Named:
    """A module of a library that is not imported yet, or something within one."""

    name: str


@dataclass
class References:
    """What a function names."""

    values: list[tuple[str, Any]] = field(default_factory=list)
    """Names as far as their values are known, such as ``helpers.LIMIT``, with the value."""
    attributes: set[str] = field(default_factory=set)
    """Names of attributes of what is not known before the function is called."""


def references(function: types.FunctionType) -> References:
    """Return what a function names, with the functions and classes inside it."""
    cells: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            cells[name] = cell.cell_contents
        except ValueError:  # of a function that is still being made
            continue
    found = References()
    _Scan(function.__globals__, found).code(function.__code__, cells)
    return found


class _Scan:
    def __init__(self, namespace: Mapping[str, Any], found: References) -> None:
        self._globals, self._found = namespace, found

    def code(self, code: types.CodeType, known: Mapping[str, Any]) -> None:
        instructions = list(dis.get_instructions(code))
        known = {**known, **self._imports(instructions)}
        used: set[int] = set()
        for place, each in enumerate(instructions):
            if place in used:
                continue
            if each.opname in _ATTRIBUTES:
                self._found.attributes.add(str(each.argval))
            elif each.opname == "IMPORT_FROM" or not each.opname.startswith("LOAD_"):
                continue
            # One instruction may load two local names.
            names = each.argval if isinstance(each.argval, tuple) else (each.argval,)
            for index, name in enumerate(names):
                value = self._value(each.opname, name, known)
                if value is _ABSENT:
                    continue
                if index == len(names) - 1:
                    name, value = self._attributes(instructions, place, used, name, value)
                self._found.values.append((name, value))
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self.code(constant, known)

    def _value(self, opname: str, name: Any, known: Mapping[str, Any]) -> Any:
        if opname.startswith("LOAD_FAST") and isinstance(name, str):
            return known.get(name, _ABSENT)
        if opname not in _FROM_SCOPE:
            return _ABSENT
        if opname != "LOAD_GLOBAL" and name in known:
            return known[name]
        if opname in ("LOAD_DEREF", "LOAD_CLOSURE"):
            return _ABSENT
        if name in self._globals:
            return self._globals[name]
        place = self._globals.get("__builtins__", builtins)
        return (place if isinstance(place, dict) else vars(place)).get(name, _ABSENT)

    def _attributes(
        self, instructions: list[dis.Instruction], place: int, used: set[int], name: str, value: Any
    ) -> tuple[str, Any]:
        """Follow the attributes of a module: ``helpers.limits.LOW``."""
        while isinstance(value, (types.ModuleType, Named)) and place + 1 < len(instructions):
            following = instructions[place + 1]
            if following.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                break
            found = _member(value, str(following.argval))
            if found is _ABSENT:
                break  # it may be made later: then the whole module is what is named
            place, name, value = place + 1, f"{name}.{following.argval}", found
            used.add(place)
        return name, value

    def _imports(self, instructions: list[dis.Instruction]) -> dict[str, Any]:
        """Return what the import statements of a function bind to local names."""
        bound: dict[str, Any] = {}
        module: Any = _ABSENT
        pending: Any = _ABSENT
        for place, each in enumerate(instructions):
            if each.opname == "IMPORT_NAME":
                level, names = (one.argval for one in instructions[place - 2 : place])
                module = pending = self._imported(str(each.argval), level, names)
            elif each.opname == "IMPORT_FROM":
                pending = _member(module, str(each.argval))
                if pending is _ABSENT:
                    pending = module
            elif each.opname.startswith("STORE_") and pending is not _ABSENT and isinstance(each.argval, str):
                bound[each.argval], pending = pending, _ABSENT
            elif each.opname == "IMPORT_STAR" or "IMPORT_STAR" in str(each.argrepr):
                self._found.values.append(("*", module))
        return bound

    def _imported(self, name: str, level: Any, names: Any) -> Any:
        absolute = name
        if level:
            package = self._globals.get("__package__") or str(self._globals.get("__name__", "")).rpartition(".")[0]
            absolute = importlib.util.resolve_name("." * level + name, package)
        top = absolute.partition(".")[0]
        result = _module(absolute)
        return _module(top) if not names and result is not _ABSENT else result


def _module(name: str) -> Any:
    """Return a module, which is imported where it belongs to the project; `Named` for another one."""
    if name in sys.modules:
        return sys.modules[name]
    top = name.partition(".")[0]
    if top in sys.modules:
        installed = library(top)
    else:
        spec = importlib.util.find_spec(top)
        if spec is None:
            return Named(f"{name}, which is not installed")
        installed = library(top, spec.origin or "")
    if installed:
        return Named(name)
    try:
        return importlib.import_module(name)
    except Exception as error:  # then the function cannot import it either
        return Named(f"{name}, of which the import raises {type(error).__name__}")


def _member(value: Any, name: str) -> Any:
    if isinstance(value, Named):
        return Named(f"{value.name}.{name}")
    try:
        return getattr(value, name)
    except Exception:
        if not isinstance(value, types.ModuleType):
            return _ABSENT
    found = _module(f"{value.__name__}.{name}") if hasattr(value, "__path__") else _ABSENT
    return found if isinstance(found, types.ModuleType) else _ABSENT
