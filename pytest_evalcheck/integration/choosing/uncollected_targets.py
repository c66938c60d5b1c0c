"""Targets that pytest would pass over without a word: each becomes an error that says where it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_evalcheck.kinds.common.calling import relative
from pytest_evalcheck.targets.target import Target

_DECORATORS = ("metric", "wrapper", "decoder", "scorer", "loop", "target")
_DECORATED = re.compile(rf"^@.*\b({'|'.join(_DECORATORS)})\b", re.MULTILINE)
"""What a file with a decorated function at its top level holds; most files do not, and need not be parsed."""
_ONE = "a target is collected by its name at the top level of its file"


def lost(made: Iterable[tuple[str, Target]], path: Path, seen: set[int], module: Any) -> Iterator[tuple[str, str]]:
    """The names and the problems of the targets that a file made and that were not collected from it."""
    told: set[str] = set()
    for file, target in made:
        if id(target) in seen or not file or Path(file).resolve() != path:
            continue
        name = target.name
        where = f"{relative(target.file)}:{target.line}"
        if f"{where}{name}" not in told:
            told.add(f"{where}{name}")
            why = _whereabouts(vars(module) if isinstance(module, ModuleType) else {}, target)
            yield f"{name}:{target.line}", f"{where}: target {name} is not collected: {why}; {_ONE}"


def of_conftests(plugins: Iterable[Any], pattern: str) -> Iterator[str]:
    """The problems of targets that stand in a conftest.py."""
    for plugin in plugins:
        file = str(getattr(plugin, "__file__", "") or "")
        if not isinstance(plugin, ModuleType) or Path(file).name != "conftest.py":
            continue
        for name, value in vars(plugin).items():
            if isinstance(value, Target) and Path(value.written[0]).resolve() == Path(file).resolve():
                yield f"{relative(file)}:{value.line}: target {name} stands in a conftest.py; move it to {pattern}"


def defines_targets(path: Path) -> bool:
    """Whether a file, which is not imported, decorates a function at its top level with a decorator of this package."""
    try:
        text = path.read_text(encoding="utf-8")
        if "pytest_evalcheck" not in text or not _DECORATED.search(text):
            return False
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError):
        return False
    return any(_decorated(node) for node in tree.body)


def _decorated(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    called = [item.func for item in node.decorator_list if isinstance(item, ast.Call)]
    names = [item.attr if isinstance(item, ast.Attribute) else getattr(item, "id", "") for item in called]
    return any(name in _DECORATORS for name in names)


def _whereabouts(names: Mapping[str, Any], target: Target) -> str:
    for name, value in names.items():
        if isinstance(value, type):
            if any(item is target for item in vars(value).values()):
                return f"it is an attribute of the class {name}"
        elif isinstance(value, (list, tuple, set, frozenset, Mapping)):
            items = value.values() if isinstance(value, Mapping) else value
            if any(item is target for item in items):
                return f"it is held in {name}"
        elif _wraps(value, target):
            return "another decorator stands above that of the target and replaced it"
    if names.get("__test__") is False:
        return "the file says __test__ = False"
    return "its name was taken by something else, or it never had one"


def _wraps(value: Any, target: Target) -> bool:
    inner = getattr(value, "__dict__", {}).get("__wrapped__") if callable(value) else None
    if inner is target:
        return True
    held = [cell.cell_contents for cell in getattr(value, "__closure__", None) or () if _filled(cell)]
    return any(item is target for item in held)


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises where it is empty
    except ValueError:
        return False
    return True
