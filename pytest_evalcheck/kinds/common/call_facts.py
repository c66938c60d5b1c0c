"""Arguments and results of a target in words: types, dtypes and shapes."""

from __future__ import annotations

import contextvars
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_calls: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar("calls", default=None)
_MOST_CALLS = 12
_MOST_PARTS = 8


@contextmanager
def recorded_calls() -> Iterator[list[str]]:
    """The calls into the target in this block, a line each: ``update(preds=int64[3], target=int64[3])``."""
    calls: list[str] = []
    token = _calls.set(calls)
    try:
        yield calls
    finally:
        _calls.reset(token)


def note_call(where: str, call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Record a call, before it is made: code under test may change what it is given."""
    calls = _calls.get()
    if calls is not None and len(calls) < _MOST_CALLS:
        calls.append(f"{where}({_arguments(call, args, kwargs)})")


def note_result(result: Any) -> None:
    """Record what the last call returned that has not returned yet."""
    calls = _calls.get() or []
    for index in reversed(range(len(calls))):
        if " -> " not in calls[index]:
            calls[index] += f" -> {describe_value(result)}"
            return


def describe_value(value: Any, depth: int = 0) -> str:
    """A value in words: ``int64[3]``, ``{labels: int64[3]}``, ``list of 3 str``, ``0.5``."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return _tensor(value)
    if value is None or isinstance(value, (bool, int, float, complex)):
        return repr(value)
    if isinstance(value, (str, bytes)):
        return repr(value) if len(value) <= 40 else f"{type(value).__name__} of {len(value)} characters"
    if isinstance(value, Mapping):
        name = "" if type(value) is dict else type(value).__name__
        return name + "{" + _parts((f"{key}: ", part) for key, part in value.items()) + "}" if depth < 3 else "{...}"
    if isinstance(value, (list, tuple)):
        return _sequence(value, depth)
    if isinstance(value, BaseException):
        return type(value).__name__
    return type(value).__name__


def _tensor(value: Any) -> str:
    dtype = str(value.dtype).removeprefix("torch.")
    place = f" on {value.device}" if str(getattr(value, "device", "cpu")) != "cpu" else ""
    if len(value.shape) == 0 and not place:
        try:
            return f"{dtype}[] {value.item():.6g}"
        except Exception:  # a tensor without data, or of no number
            return f"{dtype}[]"
    return f"{dtype}[{', '.join(map(str, value.shape))}]{place}"


def _sequence(value: Any, depth: int) -> str:
    name = type(value).__name__
    if not value:
        return f"empty {name}"
    if len(value) > 3 or depth >= 2:
        kinds = {describe_value(part, 2) if hasattr(part, "shape") else type(part).__name__ for part in value}
        return f"{name} of {len(value)} {' or '.join(sorted(kinds))}"
    inside = _parts((("", part) for part in value), depth)
    return f"({inside})" if isinstance(value, tuple) else f"[{inside}]"


def _parts(named: Iterator[tuple[str, Any]], depth: int = 0) -> str:
    parts = [f"{name}{describe_value(part, depth + 1)}" for name, part in itertools.islice(named, _MOST_PARTS + 1)]
    return ", ".join([*parts[:_MOST_PARTS], "..."] if len(parts) > _MOST_PARTS else parts)


def _arguments(call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    try:
        parameters = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    # A wrapper such as `update(*args, **kwargs)` names nothing.
    names = [f"{positional[i]}=" if i < len(positional) else "" for i in range(len(args))]
    given = [*zip(names, args, strict=True), *((f"{name}=", value) for name, value in kwargs.items())]
    return _parts(iter(given))
