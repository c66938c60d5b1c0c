"""Handlers for functions that read one of their arguments on the host, whatever device the others are on."""
# ruff: noqa: ARG001, D103  (all handlers have one signature, and are named after what they handle)

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import mark, simulated_device_of
from pytest_evalcheck.devices.modes.function_mode import SimulationFunctionMode, handles


@handles(torch.tensor_split, Tensor.tensor_split)
def tensor_split(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    for each in (*args[1:], *kwargs.values()):
        if isinstance(each, Tensor) and (place := simulated_device_of(each)) is not None:
            raise RuntimeError(
                f"tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {place.device}"
            )
    return func(*args, **kwargs)


@handles(torch._VF._pack_padded_sequence)
def pack(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The lengths, and the counts that come out, are on the CPU."""
    place = simulated_device_of(args[1])
    if place is not None:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {args[1].dim()}D {place.device} "
            f"{args[1].type().split('.')[-1].removesuffix('Tensor')} tensor"
        )
    data, counts = func(*args, **kwargs)
    return data, mark(counts, None)


@handles(torch._VF._pad_packed_sequence)
def pad(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    data, lengths = func(*args, **kwargs)
    return data, mark(lengths, None)
