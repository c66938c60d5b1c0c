"""Applying a function to every tensor in nested tuples, lists and dicts, copying and overwriting."""

from __future__ import annotations

import copy
import dataclasses
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.expectations.comparison import Tolerance, only_scalars
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
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return named_tuple_like(value, [each_tensor(item, change) for item in value])
    if isinstance(value, (list, tuple)):
        return type(value)(value if only_scalars(value) else (each_tensor(item, change) for item in value))
    return value


def named_tuple_like(value: Any, parts: Sequence[Any]) -> Any:
    """A named tuple of the class of another one, with other parts.

    Its constructor may take other arguments than the parts, as that of a result of ``scipy.stats`` does.
    """
    made = tuple.__new__(type(value), parts)
    if hasattr(value, "__dict__"):
        vars(made).update(vars(value))
    return made


def tensors_in(value: Any) -> list[Any]:
    """The tensors of the nest, in their order."""
    found: list[Any] = []

    def see(tensor: Any) -> Any:
        found.append(tensor)
        return tensor

    each_tensor(value, see)
    return found


def place(value: Arguments, device: str) -> Arguments:
    """The same arguments on a device."""
    return each_tensor(value, lambda t: t.to(device))  # type: ignore[no-any-return]


def cast_floats(value: Any, dtype: Any) -> Any:
    """The same with floating tensors in another dtype."""
    return each_tensor(value, lambda t: t.to(dtype) if t.is_floating_point() else t)


def rounding_of(value: Any, tolerance: Tolerance) -> Tolerance:
    """The tolerance, and at least 128 units in the last place of the largest number of the floating tensors in a value.

    Dot products of some hundred terms, added up in another order, differ by up to 32 units. The differences of layers
    add up like a random walk: in 30 layers of a language model (SmolLM2-135M in float32) 50 units were seen. In half
    precision 32 units are enough, since kernels add up in float32.
    """
    import torch

    bounds = [tolerance.atol]
    for tensor in tensors_in(value):
        if tensor.is_floating_point() and tensor.numel():
            largest = tensor.abs().nan_to_num(0.0, 0.0, 0.0).max()
            units = 32 if tensor.dtype.itemsize < 4 else 128
            bounds.append(float(units * torch.finfo(tensor.dtype).eps * largest))
    return Tolerance(rtol=tolerance.rtol, atol=max(bounds))


def detached(value: Any) -> Any:
    """A copy that shares no memory with the value."""
    return copy.deepcopy(each_tensor(value, lambda t: t.detach().clone()))


def overwrite(value: Any, noise: Any = None) -> None:
    """Write other values into every tensor, array and list of texts of nested containers, in place.

    Every number changes by another amount: a metric that compares predictions with labels, or ranks them, would have
    the same value after a common change.
    """
    import torch

    noise = noise or torch.Generator().manual_seed(0)
    if isinstance(value, torch.Tensor):
        strides = value.stride() if value.layout == torch.strided else ()
        for dim in [dim for dim, stride in enumerate(strides) if stride == 0]:
            value = value.narrow(dim, 0, min(1, value.shape[dim]))  # an expanded value is stored once
        drawn = torch.randn(value.shape, generator=noise).to(value.device)
        with torch.inference_mode(value.is_inference()), torch.no_grad():
            if value.dtype == torch.bool:
                called(value.logical_xor_, drawn > 0)
            elif value.is_floating_point() or value.is_complex():
                called(value.copy_, 3 * drawn + 5)
            else:
                called(value.add_, 1 + (drawn > 0))
    elif isinstance(value, Arguments):
        overwrite(value.args, noise)
        overwrite(dict(value.kwargs), noise)
    elif isinstance(value, Mapping):
        for item in value.values():
            overwrite(item, noise)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            overwrite(getattr(value, field.name), noise)
    elif isinstance(value, (list, tuple)):
        for item in value:
            overwrite(item, noise)
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            value[:] = ["overwritten"] * len(value)
    elif type(value).__module__ == "numpy" and getattr(value, "ndim", None) and value.flags.writeable:
        try:
            torch.from_numpy(value)
            other = value.copy()
            overwrite(torch.from_numpy(other), noise)
            called(sys.modules["numpy"].copyto, value, other)
        except (TypeError, ValueError):  # of a dtype or strides that torch has not
            value += 1


def overwrite_result(value: Any) -> None:
    """Overwrite a result, and also the plain numbers in its lists and mappings, which nobody else has made.

    A mapping or list of Python's own types only: writing into others may run code of theirs.
    """
    overwrite(value)
    _overwrite_numbers(value)


def _overwrite_numbers(value: Any) -> None:
    places: list[Any] = list(value) if type(value) is dict else list(range(len(value))) if type(value) is list else []
    items = value if isinstance(value, tuple) else [value[place] for place in places]
    for index, item in enumerate(items):
        if type(item) in (int, float) and places:
            called(value.__setitem__, places[index], 3 * item + 5 + index)
        else:
            _overwrite_numbers(item)


def count_tensors(value: Any) -> int:
    """Count the tensors of a nest."""
    return len(tensors_in(value))


def count_rows(value: Any) -> int:
    """Count the rows of a tensor, an array, a list or a tuple; 0 for any other object."""
    if hasattr(value, "shape"):
        return int(value.shape[0]) if len(value.shape) else 0
    return len(value) if isinstance(value, (list, tuple)) else 0


def count_elements(value: Any, *, plain: bool = True) -> int:
    """Count the numbers of a nest of tensors, arrays, lists, sets and mappings; 0 for any other object.

    With ``plain=False`` only a tensor or an array itself is counted, and nothing that holds some.
    """
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return math.prod(value.shape)
    if not plain:
        return 0
    if isinstance(value, Mapping):
        return sum(map(count_elements, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return sum(map(count_elements, value))
    return len(value) if isinstance(value, str) else int(isinstance(value, (int, float, complex)))
