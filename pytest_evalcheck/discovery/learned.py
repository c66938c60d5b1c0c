"""Observed calls of a corpus as examples: how an object is made, and what it is given."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_evalcheck import adapters
from pytest_evalcheck.discovery.examples import Observed
from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.kinds.common.process_state import isolated_process
from pytest_evalcheck.learning import corpus
from pytest_evalcheck.learning.values import decoded, encoded
from pytest_evalcheck.learning.watching import Object

PLACE = "EVALCHECK_CORPUS"
"""The variable of the environment that names the folder of the corpus to the processes that infer."""
_MOST_CALLS = 8
_OF_TORCH = ("torch.nn.modules.", "torch.nn.functional", "torch._C._nn")
"""Homes of names that a constructor may be given beside those of its own package: a corpus is data, and never code."""


def observed(thing: Any, methods: Sequence[str]) -> list[Observed]:
    """Return the ways in which watched runs have used a class or a function, those with most calls first."""
    entry = read().entries.get(f"{thing.__module__}:{thing.__qualname__}")
    if entry is None:
        return []
    found: dict[str, Observed] = {}
    package = entry.module.partition(".")[0]
    home = f"from {entry.module} import {entry.name}"
    if not entry.is_class:
        calls = [given for _, call in entry.calls if (given := _given(call.arguments))]
        return [Observed(construction=entry.name, imports=(home,), calls=[given]) for given in calls[:_MOST_CALLS]]
    for each in entry.objects:
        try:
            construction, imports = _construction(entry.name, each.made or {}, package)
            fed = [(call.method, given) for call in each.calls if (given := _given(call.arguments))]
        except UsageError:
            continue
        own = [given for method, given in fed if method in methods]
        one = Observed(construction=construction, imports=(home, *imports), calls=own)
        if not adapters.recognised("metric", thing):
            if (found_out := _by_trial(one, each)) is None:
                continue
            one = found_out
        known = found.setdefault(f"{one.construction} {one.described}", replace(one, calls=[]))
        known.calls += one.calls[: _MOST_CALLS - len(known.calls)]
    return sorted((each for each in found.values() if each.calls), key=lambda each: -len(each.calls))


def _by_trial(seen: Observed, observed: Object) -> Observed | None:
    """Find out what feeds an object, what gives its value and what starts again, by a repetition of its calls.

    A method that returns a value for data, and leaves the object as it is, is a function. Else the object accumulates:
    what is given data feeds it, and what is called or read without any, and returned a value then, gives it. None where
    the repetition gives other values than the run.
    """
    names: dict[str, Any] = {}
    exec("\n".join(seen.imports), names)
    with isolated_process():
        try:
            made = eval(seen.construction, names)
            before = _state(made)
            fed, begun, value = "", "", ""
            calls: list[dict[str, Any]] = []
            for call in observed.calls:
                given = _given(call.arguments)
                if call.arguments and not given:
                    return None
                result = _repeated(made, call.method, given)
                if given and not fed and _is_value(result) and _state(made) == before:
                    alike = [_given(one.arguments) for one in observed.calls if one.method == call.method]
                    return replace(seen, construction=f"{seen.construction}.{call.method}", calls=alike)
                if given:
                    fed = fed or call.method
                    calls += [given] if call.method == fed else []
                elif not fed and result is None:
                    begun = call.method
                elif fed and _is_value(result) and _equal(encoded(result), call.returned):
                    value = call.method
        except Exception:  # what it needs was not seen
            return None
    if not (fed and value):
        return None
    read = (
        f"made.{value}"
        if inspect.isroutine(inspect.getattr_static(type(made), value, None))
        else f"lambda: made.{value}"
    )
    reset = f", reset=made.{begun}" if begun else ""
    setup = (begun,) if begun else ()
    return replace(seen, calls=calls, setup=setup, described=f"ec.Metric(update=made.{fed}, compute={read}{reset})")


def _repeated(made: Any, method: str, given: dict[str, Any]) -> Any:
    if not inspect.isroutine(inspect.getattr_static(type(made), method, None)):
        return getattr(made, method)
    positional = [value for name, value in given.items() if name.isdigit()]
    return getattr(made, method)(*positional, **{name: value for name, value in given.items() if not name.isdigit()})


def _state(made: Any) -> str:
    return repr(encoded(dict(getattr(made, "__dict__", {}))))


def _is_value(result: Any) -> bool:
    """Return whether a result has numbers."""
    if isinstance(result, dict):
        return any(map(_is_value, result.values()))
    if isinstance(result, (list, tuple)):
        return any(map(_is_value, result))
    return isinstance(result, (int, float)) or (hasattr(result, "dtype") and hasattr(result, "shape"))


def _equal(first: Any, second: Any) -> bool:
    """Return whether two results as JSON are equal, up to rounding."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(_equal(first[name], second[name]) for name in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_equal, first, second))
    if isinstance(first, (int, float)) and isinstance(second, (int, float)):
        return math.isclose(first, second, rel_tol=1e-4, abs_tol=1e-6)
    return bool(first == second)


def names_in(module: str) -> list[str]:
    """Return the names that a corpus has of a module and its submodules, as ``module:name``."""
    return read().of(module)


def notes(packages: Collection[str]) -> list[str]:
    """Say where the corpus of a package was learned from another release than the installed one."""
    found = []
    for package, before in read().releases.items():
        now = corpus.release(package)
        if package in packages and before != now:
            found.append(
                f"the corpus of {package} was learned from {before or 'no release'}, {now or 'none'} is installed"
            )
    return found


def read() -> corpus.Corpus:
    """Return the corpus of this run; an empty one where there is none."""
    folder = Path(os.environ.get(PLACE) or corpus.FOLDER)
    stamp = tuple((str(path), path.stat().st_mtime_ns) for path in sorted(folder.glob("*.json")))
    return _read(folder.resolve(), stamp)


@lru_cache(maxsize=2)
def _read(folder: Path, _stamp: tuple[Any, ...]) -> corpus.Corpus:
    return corpus.read(folder)


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call; none where one was not kept, beside None and defaults that are objects."""
    found = {}
    for name, value in arguments.items():
        try:
            found[name] = decoded(value)
        except UsageError:
            if not (isinstance(value, dict) and {"opaque", "name"} & {*value}):
                return {}
    return found


def _construction(name: str, made: dict[str, Any], package: str) -> tuple[str, tuple[str, ...]]:
    """Return the source that makes an object again, and its imports."""
    imports: dict[str, None] = {}
    given = ", ".join(
        _source(value, package, imports) if key.isdigit() else f"{key}={_source(value, package, imports)}"
        for key, value in made.items()
    )
    return f"{name}({given})", tuple(imports)


def _source(value: Any, package: str, imports: dict[str, None]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_source(each, package, imports) for each in value)}]"
    if isinstance(value, dict) and "dict" in value:
        pairs = (f"{name!r}: {_source(each, package, imports)}" for name, each in value["dict"].items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, dict) and "name" in value:
        module, _, path = str(value["name"]).partition(":")
        own = module.partition(".")[0] == package
        if not all(part.isidentifier() for part in (*module.split("."), *path.split("."))):
            raise UsageError(f"{value['name']} is no name")
        if not own and not f"{module}.".startswith(_OF_TORCH):
            raise UsageError(f"{value['name']} is neither of {package} nor a module of torch")
        imports[f"from {module} import {path.partition('.')[0]}"] = None
        return path
    if isinstance(value, dict) and "torch" in value:
        imports["import torch"] = None
        made = decoded(value)
        return str(made) if "dtype" in type(made).__name__ else f"torch.device({value['torch']!r})"
    plain = decoded(value)
    if hasattr(plain, "dtype"):
        home = "torch" if type(plain).__module__.startswith("torch") else "numpy"
        imports[f"import {home}"] = None
        dtype = str(plain.dtype).removeprefix("torch.")
        return f"{home}.{'tensor' if home == 'torch' else 'array'}({plain.tolist()!r}, dtype={home}.{dtype})"
    if isinstance(plain, float) and not math.isfinite(plain):
        return f"float({str(plain)!r})"
    return repr(plain)
