"""Names of a module that can be checked as metrics, and why the others cannot."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_evalcheck import adapters
from pytest_evalcheck.discovery.forms import says_evaluation, snake_case
from pytest_evalcheck.discovery.learned import names_in
from pytest_evalcheck.discovery.requests import Request
from pytest_evalcheck.errors import UsageError, did_you_mean, nearest, nearest_word, safe_text
from pytest_evalcheck.learning.annotated import annotated, seen_in_annotations
from pytest_evalcheck.learning.watching import has_tests, is_private


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A public class or function that looks like a metric."""

    module: str
    """From where it is imported."""
    name: str
    is_class: bool
    call: str = ""
    """Source that makes it, where the request gives one."""
    origin: str = ""
    """The module that defines it, from which others may import it; empty where that is not known."""

    def load(self) -> Any:
        """The class or the function."""
        return getattr(importlib.import_module(self.module), self.name)

    @property
    def identity(self) -> tuple[str, str]:
        """Return the identity of a candidate: the same for several requests that find it."""
        return self.origin or str(self), self.call

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(kw_only=True)
class Found:
    """Things that a request stands for."""

    candidates: list[Candidate] = field(default_factory=list)
    others: int = 0
    """Public classes and functions of the module that are no metrics."""
    functions: list[Candidate] = field(default_factory=list)
    """Functions that look like metrics, of a package whose classes are tried."""
    left: dict[str, str] = field(default_factory=dict)
    """By name: metrics that cannot be tried, and submodules that cannot be imported, with the reason."""


def find(request: Request) -> Found:
    """The metrics that a request stands for.

    Raises:
        UsageError: where the module or the name is not there, or the name is no metric.
    """
    module = _imported(request)
    if request.name:
        return Found(candidates=[_named(module, request)])
    found = Found()
    seen: dict[int, tuple[Candidate, Any]] = {}
    for home in _modules(module, found.left):
        for name, value in _public(home, module.__name__.partition(".")[0]):
            known = seen.get(id(value))
            if known is None or len(home.__name__) < len(known[0].module):
                seen[id(value)] = _candidate(home.__name__, name, value), value
    classes: list[Candidate] = []
    functions: list[Candidate] = []
    accumulates = False
    seen_in_runs = {*names_in(module.__name__)}
    for candidate, value in seen.values():
        why = _unusable(value)
        imported = why and not f"{getattr(value, '__module__', '')}.".startswith(f"{module.__name__}.")
        observed = f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', '')}" in seen_in_runs
        surely = observed or adapters.recognised("metric", value)
        if imported or not (surely or _is_evaluation(value)):
            found.others += 1
        elif why:
            found.left[str(candidate)] = why
        else:
            (classes if candidate.is_class else functions).append(candidate)
            accumulates = accumulates or (surely and candidate.is_class)
    # Functions beside classes mostly compute what the classes accumulate.
    there = {f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', '')}" for _, value in seen.values()}
    gone = (name for name in seen_in_runs - there if name.partition(":")[0] == module.__name__)
    found.left.update((name.replace(":", "."), "it is in the corpus, and not in the module") for name in gone)
    origins = {name.replace(":", ".") for name in seen_in_runs}  # a package may export what is in a module inside it
    called = [each for each in functions if each.origin in origins]
    found.candidates = [*classes, *(called if accumulates else functions)]
    found.functions = sorted((each for each in functions if each not in called), key=str) if accumulates else []
    found.candidates.sort(key=str)
    return found


def _is_evaluation(value: Any) -> bool:
    """Return whether names have a word of evaluation, and annotations tell how it is called.

    Without annotations its own name must have the word.
    """
    modules = str(getattr(value, "__module__", "")).split(".")
    modules = (modules[1:] or modules) if annotated(value) else []
    words = snake_case("_".join([*modules, getattr(value, "__name__", "")]))
    return says_evaluation(words) and seen_in_annotations(value) is not None


def _candidate(module: str, name: str, value: Any, call: str = "") -> Candidate:
    home, path = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    origin = f"{home}.{path}" if home and path and "<" not in path else ""
    return Candidate(module=module, name=name, is_class=inspect.isclass(value), call=call, origin=origin)


def _unusable(value: Any) -> str:
    if not inspect.isclass(value):
        return ""
    if inspect.isabstract(value):
        return f"abstract: {', '.join(sorted(getattr(value, '__abstractmethods__', ())))} must be defined"
    return ""


def _imported(request: Request) -> ModuleType:
    try:
        return importlib.import_module(request.module)
    except ModuleNotFoundError as error:
        parent, _, last = request.module.rpartition(".")
        if error.name is not None and not (request.module + ".").startswith(error.name + "."):
            raise UsageError(f"{request.module} cannot be imported: it needs {error.name}, which is missing") from error
        home = _importable(parent)
        if home is not None:
            inside = [each.name for each in pkgutil.iter_modules(getattr(home, "__path__", []))]
            names = [*vars(home), *inside]
            near = nearest_word(last, names)
            hint = did_you_mean(f"{parent}{'.' if near in inside else ':'}{near}" if near else "")
            hint = f"; write {parent}:{last} for a name in it" if last in names else hint
            raise UsageError(f"there is no module {request.module}{hint}") from error
        installed = [each.name for each in pkgutil.iter_modules()]
        top = request.module.partition(".")[0]
        near = nearest_word(top, installed, cutoff=0.7)
        hint = did_you_mean(near + request.module.removeprefix(top) if near else "")
        if Path("src", top).is_dir():
            hint = "; it is in src: install the project (pip install -e .), or set PYTHONPATH=src"
        raise UsageError(f"there is no module {request.module}{hint}") from error
    except (KeyboardInterrupt, UsageError):
        raise
    except BaseException as error:
        raise UsageError(f"importing {request.module} raised {_short(error)}") from error


def _importable(name: str) -> ModuleType | None:
    if name:
        with suppress(Exception):
            return importlib.import_module(name)
    return None


def _named(module: ModuleType, request: Request) -> Candidate:
    public = [name for name in vars(module) if not name.startswith("_")]
    try:
        value = getattr(module, request.name)
    except AttributeError:
        raise UsageError(f"{module.__name__} has no {request.name}{nearest(request.name, public)}") from None
    if not callable(value):
        raise UsageError(f"{request.text} is {safe_text(value)}; expected a class or a function")
    return _candidate(module.__name__, request.name, value, request.call)


def _modules(module: ModuleType, left: dict[str, str]) -> Iterator[ModuleType]:
    """The module, and the public modules inside it."""
    yield module
    for info in pkgutil.iter_modules(getattr(module, "__path__", []), f"{module.__name__}."):
        last = info.name.rpartition(".")[2]
        if is_private(last):
            continue
        try:
            inner = importlib.import_module(info.name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a module may end the process, or need what is not installed
            left[info.name] = f"importing it raised {_short(error)}"
            continue
        if not has_tests(info.name, vars(inner)):
            yield from _modules(inner, left)


def _public(home: ModuleType, package: str) -> Iterator[tuple[str, Any]]:
    """The classes and functions that a module offers as its own, or exports from its package."""
    exported = getattr(home, "__all__", None)
    names = list(exported) if isinstance(exported, (list, tuple)) else [n for n in vars(home) if not n.startswith("_")]
    for name in names:
        value = _attribute(home, str(name))
        if not (inspect.isclass(value) or inspect.isroutine(value)):
            continue
        origin = str(getattr(value, "__module__", "") or "")
        if origin.partition(".")[0] == package:
            yield str(name), value


def _attribute(home: ModuleType, name: str) -> Any:
    try:
        return getattr(home, name)
    except Exception:  # a lazy module imports what may be missing
        return None


def _short(error: BaseException) -> str:
    text = safe_text(error, str).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}"[:160] if text else type(error).__name__
