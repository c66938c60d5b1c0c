"""Batches that a metric ought to reject, made from a good one."""

from __future__ import annotations

from typing import Any

from pytest_evalcheck.strategies.samples import Arguments


def malformed(good: Arguments) -> dict[str, Arguments]:
    """By fault: the arguments with unequal lengths, of another rank, of another type, or with one missing.

    A fault that cannot be made of these arguments (unequal lengths of a single one) is left out.
    """
    names: list[Any] = [*range(len(good.args)), *good.kwargs]
    rows = [name for name in names if _length(_get(good, name))]
    made = {}
    if len(rows) > 1:
        made["unequal lengths"] = _put(good, rows[0], _get(good, rows[0])[:-1])
    tensors = [name for name in names if hasattr(_get(good, name), "unsqueeze")]
    if tensors:
        made["another rank"] = _put(good, tensors[0], _get(good, tensors[0]).unsqueeze(0).unsqueeze(-1))
    if names:
        made["another type"] = _put(good, names[-1], object())
        made["too few arguments"] = _drop(good, names[-1])
    return made


def _length(value: Any) -> int:
    if hasattr(value, "shape"):
        return int(value.shape[0]) if len(value.shape) else 0
    return len(value) if isinstance(value, (list, tuple)) else 0


def _get(arguments: Arguments, name: Any) -> Any:
    return arguments.args[name] if isinstance(name, int) else arguments.kwargs[name]


def _put(arguments: Arguments, name: Any, value: Any) -> Arguments:
    if isinstance(name, int):
        return Arguments((*arguments.args[:name], value, *arguments.args[name + 1 :]), arguments.kwargs)
    return Arguments(arguments.args, {**arguments.kwargs, name: value})


def _drop(arguments: Arguments, name: Any) -> Arguments:
    if isinstance(name, int):
        return Arguments(arguments.args[:name] + arguments.args[name + 1 :], arguments.kwargs)
    return Arguments(arguments.args, {k: v for k, v in arguments.kwargs.items() if k != name})
