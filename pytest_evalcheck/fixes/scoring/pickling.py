"""Functions, documents and scores as bytes."""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_evalcheck.fixes.scoring.errors import SENDING, Failure, SetupError, needed

loads = pickle.loads


def dumps(value: Any) -> bytes:
    """Pickle a document or a score; lambdas and what a script defines are pickled by value."""
    try:
        packed = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        # pickle refers to a class of the script by a name that a worker does not have.
        if b"__main__" not in packed:
            return packed
    except Exception:
        pass
    return bytes(needed("cloudpickle").dumps(value))


def dumps_function(score: Callable[..., Any], job: Any) -> bytes:
    """Pickle a job with its score function, or name the part of the function that cannot be pickled."""
    cloudpickle = needed("cloudpickle")
    known = cloudpickle.list_registry_pickle_by_value()
    # No import finds a module that lm-eval loads beside a task's YAML: its name is a path.
    modules = [
        module
        for name, module in list(sys.modules.items())
        if not all(part.isidentifier() for part in name.split("."))
        and name not in known
        and getattr(module, "__name__", None) == name
    ]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(job))
    except Exception as error:
        causes = "; ".join(_unpicklable(score, "the score function", 3)) or f"{_describe(score)}: {error}"
        raise SetupError(
            f"score: the function cannot be sent to another process, because {causes}. Define it at the top of a "
            "module and create such objects inside it (or in a functools.cache function, once per process), or use "
            'backend="threads", which sends nothing'
        ) from error
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def unsendable(what: str, error: BaseException) -> Failure:
    """Return the failure of a document that could not be pickled, or whose score could not."""
    return Failure(SENDING, type(error).__name__, f"{what} could not be pickled: {error}")


def sendable(failure: Failure) -> Failure:
    """Return the failure, without its exception where that cannot be pickled and restored."""
    try:
        loads(dumps(failure.exception))
    except Exception:
        return replace(failure, exception=None)
    return failure


def _unpicklable(value: Any, where: str, depth: int) -> Iterator[str]:
    """Name the innermost parts that cannot be pickled."""
    try:
        needed("cloudpickle").dumps(value)
    except Exception as error:
        parts = _parts(value) if depth else {}
        inner = [cause for name, part in parts.items() for cause in _unpicklable(part, f"{name} of {where}", depth - 1)]
        yield from inner or [f"{where} ({_describe(value)}) cannot be pickled: {error}"]


def _parts(value: Any) -> dict[str, Any]:
    if isinstance(value, partial):
        return {
            "function": value.func,
            **{f"argument {name!r}": each for name, each in [*enumerate(value.args), *value.keywords.items()]},
        }
    if inspect.isfunction(value):
        used = inspect.getclosurevars(value)
        return {f"variable {name!r}": each for name, each in {**used.globals, **used.nonlocals}.items()}
    if isinstance(value, Mapping):
        return {f"item {key!r}": each for key, each in value.items()}
    parts = {f"attribute {name!r}": each for name, each in getattr(value, "__dict__", {}).items()}
    return {"object": value.__self__} if inspect.ismethod(value) else parts


def _describe(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    return f"{type(value).__name__} {name}" if name else f"a {type(value).__name__}"
