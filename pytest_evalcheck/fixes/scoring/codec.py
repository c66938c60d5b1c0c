"""What travels to a worker and back, as bytes."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from pytest_evalcheck.fixes.scoring.errors import SENDING, Failure, SetupError
from pytest_evalcheck.fixes.scoring.needs import needed

loads = pickle.loads


def dumps(thing: Any) -> bytes:
    """Pickle a document or a score; what a script defines, and lambdas, by value."""
    try:
        packed = pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)
        # Plain pickle would refer to a class of the script by a name that a worker does not have.
        if b"__main__" not in packed:
            return packed
    except Exception:
        pass
    return bytes(_cloudpickle().dumps(thing))


def dumps_function(score: Callable[..., Any], task: Any) -> bytes:
    """Pickle a task with its score function, or say which part of the function cannot be pickled."""
    with _homeless_by_value():
        try:
            return bytes(_cloudpickle().dumps(task))
        except Exception as error:
            parts = "; ".join(_unpicklable(score, "the score function", 3)) or f"{_named(score)}: {error}"
            raise SetupError(
                f"score: the function cannot be sent to another process, because {parts}. Define it at the top of a "
                "module and make such things inside of it (or in a functools.cache function, once a process), or use "
                'backend="threads", which sends nothing'
            ) from error


def packed_failure(failure: Failure) -> Failure:
    """Return the failure with its exception if that survives a journey, in words alone if not."""
    try:
        loads(dumps(failure.exception))
    except Exception:
        return failure.without_exception()
    return failure


def unsendable(what: str, error: BaseException) -> Failure:
    """Tell that a document or a score could not be pickled."""
    return Failure(SENDING, type(error).__name__, f"{what} could not be pickled: {error}")


def _cloudpickle() -> Any:
    try:
        return needed("cloudpickle")  # which joblib needs, from 1.6 on
    except ModuleNotFoundError:
        return needed("joblib.externals.cloudpickle")  # which it brought along, before


@contextmanager
def _homeless_by_value() -> Iterator[None]:
    """Send code of modules that no import can find, as those that lm-eval loads beside a task's YAML, by value."""
    cloudpickle = _cloudpickle()
    known = cloudpickle.list_registry_pickle_by_value()
    modules = [
        module
        for name, module in list(sys.modules.items())
        if not all(part.isidentifier() for part in name.split("."))
        and name not in known
        and getattr(module, "__name__", None) == name
        and sys.modules.get(name) is module
    ]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def _unpicklable(thing: Any, place: str, depth: int) -> Iterator[str]:
    """Name the innermost parts that cannot be pickled."""
    try:
        _cloudpickle().dumps(thing)
        return
    except Exception as error:
        why = str(error)
    inner = (
        []
        if depth == 0
        else [
            told for name, part in _parts(thing).items() for told in _unpicklable(part, f"{name} of {place}", depth - 1)
        ]
    )
    if inner:
        yield from inner
    else:
        yield f"{place} ({_named(thing)}) cannot be pickled: {why}"


def _parts(thing: Any) -> Mapping[str, Any]:
    if isinstance(thing, partial):
        given = {f"argument {number}": value for number, value in enumerate(thing.args)}
        return {
            "function": thing.func,
            **given,
            **{f"argument {name!r}": each for name, each in thing.keywords.items()},
        }
    if hasattr(thing, "__func__"):
        return {"object": thing.__self__}
    code = getattr(thing, "__code__", None)
    if code is not None:
        cells = zip(code.co_freevars, thing.__closure__ or (), strict=True)
        closed = {f"variable {name!r}": cell.cell_contents for name, cell in cells}
        used = {f"global {name!r}": thing.__globals__[name] for name in code.co_names if name in thing.__globals__}
        return {**used, **closed}
    if isinstance(thing, Mapping):
        return {f"item {key!r}": value for key, value in thing.items()}
    return {f"attribute {name!r}": value for name, value in getattr(thing, "__dict__", {}).items()}


def _named(thing: Any) -> str:
    name = getattr(thing, "__qualname__", None)
    return f"{type(thing).__name__} {name}" if name else f"a {type(thing).__name__}"
