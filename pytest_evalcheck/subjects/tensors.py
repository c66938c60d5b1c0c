"""Doing one thing to every tensor in a nest of tuples, lists and dicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_evalcheck.strategies.samples import Arguments


def each_tensor(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same nest with every tensor replaced by what ``change`` gives; all else is kept."""
    import torch

    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, Arguments):
        return Arguments(each_tensor(value.args, change), each_tensor(dict(value.kwargs), change))
    if isinstance(value, Mapping):
        return {key: each_tensor(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(each_tensor(item, change) for item in value)
    return value


def place(value: Arguments, device: str) -> Arguments:
    """The same arguments on a device."""
    return each_tensor(value, lambda t: t.to(device))  # type: ignore[no-any-return]


def cast_floats(value: Any, dtype: Any) -> Any:
    """The same with floating tensors in another dtype."""
    return each_tensor(value, lambda t: t.to(dtype) if t.is_floating_point() else t)


def overwrite(value: Any) -> None:
    """Write other numbers into every tensor and array, and empty every list of texts, in place."""
    import torch

    if isinstance(value, torch.Tensor):
        with torch.no_grad():
            if value.dtype == torch.bool:
                value.logical_not_()
            elif value.is_floating_point() or value.is_complex():
                value.mul_(-1).sub_(3)
            else:
                value.add_(1)
    elif isinstance(value, Arguments):
        overwrite(value.args)
        overwrite(dict(value.kwargs))
    elif isinstance(value, Mapping):
        for item in value.values():
            overwrite(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            overwrite(item)
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            value[:] = ["overwritten"] * len(value)
    elif type(value).__module__ == "numpy" and getattr(value, "ndim", 0):
        value += 1


def count_tensors(value: Any) -> int:
    """How many tensors the nest holds."""
    found = 0

    def see(tensor: Any) -> Any:
        nonlocal found
        found += 1
        return tensor

    each_tensor(value, see)
    return found
