"""Batches that a metric or a wrapper ought to reject, made from a good one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pytest_evalcheck.expectations.comparison import Raised, Tolerance, difference
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


@dataclass(frozen=True)
class Spoiled:
    """A batch of a wrapper with one field that is missing or malformed."""

    field: str
    fault: Literal["missing", "of another length", "of another dtype"]
    batch: Any

    def unanswered(self, found: Mapping[str, Any], good: Mapping[str, Any], tolerance: Tolerance) -> str:
        """What is wrong with what the wrapper made of it, beside what it makes of the good batch; or nothing."""
        errors = [value for value in found.values() if isinstance(value, Raised)]
        if self.fault == "missing":
            unnamed = [str(error) for error in errors if self.field not in str(error.error)]
            return f"no error names it: {unnamed[0]}" if unnamed else ""
        if errors:
            return ""
        if self.fault == "of another length":
            return "it was scored"
        line = difference(dict(found), dict(good), tolerance)
        return f"it was scored, with other values: {line}" if line else ""


def spoiled(good: Any, labels: str) -> list[Spoiled]:
    """Every fault that can be made of a mapping: each field missing, its labels too short or of another dtype."""
    if not isinstance(good, Mapping):
        return []
    made = [Spoiled(str(name), "missing", without(good, name)) for name in good]
    if hasattr(good.get(labels), "is_floating_point"):
        wrong = good[labels].long() if good[labels].is_floating_point() else good[labels].float()
        # A single label is what torch would hold against every row.
        short = good[labels][:1] if len(good[labels]) > 1 else good[labels][:0]
        made.append(Spoiled(labels, "of another length", {**good, labels: short}))
        made.append(Spoiled(labels, "of another dtype", {**good, labels: wrong}))
    return made


def without(batch: Any, field: Any) -> Any:
    """A batch that lacks a field; None where it is no mapping that has it."""
    if not isinstance(batch, Mapping) or field not in batch:
        return None
    return {name: value for name, value in batch.items() if name != field}
