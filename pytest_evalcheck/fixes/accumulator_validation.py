"""Validation of the arguments and states of accumulators."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import TypeAlias

import torch
from torch import Tensor

from pytest_evalcheck.fixes.double_double import DoubleDouble

Values: TypeAlias = "Tensor | float | Sequence[float] | Sequence[Tensor]"
"""A tensor, an array, a number, or a sequence of numbers or of tensors of one shape and dtype."""


def real(values: Values, *, name: str) -> Tensor:
    """Return the values as a dense real tensor without gradient.

    Python floats become float64, not the default dtype, which would round them. TypeError for values that are not
    real numbers, ValueError for real numbers in no regular shape.
    """
    tensor = values if isinstance(values, Tensor) else _tensor_from_python(values, name)
    if tensor.is_complex() or tensor.is_quantized or tensor.layout != torch.strided:
        kind = "quantized" if tensor.is_quantized else str(tensor.layout)
        raise TypeError(f"{name}: expected a dense tensor of real numbers, got {tensor.dtype} ({kind})")
    if tensor.dtype == torch.uint64:
        raise TypeError(f"{name}: expected integers that fit into 64 bits with a sign, got torch.uint64")
    return tensor.detach()


def rows(tensor: Tensor, shape: tuple[int, ...], *, name: str) -> Tensor:
    """Return the tensor as ``(n, *shape)``: its leading dimensions, none or several, become one."""
    start = tensor.dim() - len(shape)
    if start < 0 or tuple(tensor.shape[start:]) != shape:
        ending = f"a shape that ends in {shape}" if shape else "any shape"
        raise ValueError(f"{name}: expected {ending}, got {tuple(tensor.shape)}")
    return tensor.reshape(math.prod(tensor.shape[:start]), *shape)


def checked_shape(shape: Iterable[int]) -> tuple[int, ...]:
    """Return a valid shape; TypeError or ValueError for anything else."""
    try:
        result = tuple(shape)
    except TypeError:
        raise TypeError(f"shape: expected a tuple such as (3,), got {shape!r}") from None
    if not all(isinstance(length, int) for length in result):
        raise TypeError(f"shape: expected whole numbers, got {result!r}")
    if any(length < 0 for length in result):
        raise ValueError(f"shape: expected lengths of 0 or more, got {result!r}")
    return result


def checked_dtype(dtype: torch.dtype | None) -> torch.dtype | None:
    """Return a dtype that a sum can have; None is the most precise one of the device."""
    if dtype not in (None, torch.float32, torch.float64):
        raise TypeError(f"dtype: expected torch.float64, torch.float32 or None for the best there is, got {dtype!r}")
    return dtype


def checked_peer(other: object, kind: type, shape: tuple[int, ...] | None = None) -> None:
    """Raise TypeError or ValueError for anything but an accumulator of this class and shape."""
    if not isinstance(other, kind):
        raise TypeError(f"merge: expected a {kind.__name__}, got {type(other).__name__}")
    theirs = getattr(other, "shape", None)
    if theirs != shape:
        raise ValueError(f"merge: expected a {kind.__name__} of shape {shape}, got one of shape {theirs}")


def as_state(**sums: DoubleDouble) -> dict[str, Tensor]:
    """Copy the words of named sums into a flat dict."""
    return {f"{name}_{part}": word.clone() for name, sum_ in sums.items() for part, word in sum_._asdict().items()}


def from_state(state: Mapping[str, Tensor], shape: tuple[int, ...], *names: str) -> list[DoubleDouble]:
    """Return copies of the sums that `as_state` wrote; TypeError or ValueError for anything else."""
    checked_keys(state, [f"{name}_{part}" for name in names for part in DoubleDouble._fields])
    for name in names:
        for key in (f"{name}_high", f"{name}_low"):
            word = state[key]
            if not isinstance(word, Tensor) or word.dtype not in (torch.float32, torch.float64):
                got = word.dtype if isinstance(word, Tensor) else type(word).__name__
                raise TypeError(f"state[{key!r}]: expected a float64 or float32 tensor, got {got}")
            if tuple(word.shape) != shape:
                raise ValueError(f"state[{key!r}]: expected the shape {shape}, got {tuple(word.shape)}")
    return [
        DoubleDouble(state[f"{name}_high"].detach().clone(), state[f"{name}_low"].detach().clone()) for name in names
    ]


def checked_keys(state: Mapping[str, Tensor], expected: Sequence[str]) -> None:
    """Raise TypeError or ValueError for a state without exactly these keys."""
    if not isinstance(state, Mapping):
        raise TypeError(f"state: expected the dict that state_dict() gave, got {type(state).__name__}")
    if set(state) != set(expected):
        raise ValueError(f"state: expected the keys {sorted(expected)}, got {sorted(map(str, state))}")


def _tensor_from_python(values: object, name: str) -> Tensor:
    is_sequence = isinstance(values, Sequence) and not isinstance(values, str | bytes)
    if not (is_sequence or isinstance(values, Real) or hasattr(values, "__array__")):
        raise TypeError(f"{name}: expected a tensor or real numbers, got {type(values).__name__}")
    if isinstance(values, Sequence) and any(isinstance(value, Tensor) for value in values):
        return _stacked(values, name)
    try:
        tensor = torch.as_tensor(values, device="cpu")
        if tensor.is_floating_point() and not hasattr(values, "__array__"):
            return torch.as_tensor(values, dtype=torch.float64, device="cpu")
    except (TypeError, ValueError, RuntimeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}: expected a tensor or real numbers in a regular shape, got {values!r:.80}") from error
    return tensor


def _stacked(values: Sequence[object], name: str) -> Tensor:
    tensors = [value.detach() for value in values if isinstance(value, Tensor)]
    if len(tensors) < len(values) or len({(t.dtype, t.device) for t in tensors}) > 1:
        raise TypeError(f"{name}: expected tensors of one dtype on one device, or numbers, got a mixture of them")
    if len({t.shape for t in tensors}) > 1:
        raise ValueError(f"{name}: expected tensors of one shape, got {[tuple(t.shape) for t in tensors][:8]}")
    return torch.stack(tensors)
