"""Handlers for functions that ask for devices in C++, where every tensor of a simulation is on the CPU."""
# ruff: noqa: ARG001, D103  (all handlers have one signature, and are named after what they handle)

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import device_of, simulated_device_of
from pytest_evalcheck.devices.modes.function_mode import SimulationFunctionMode, handles


def _tensors(args: Any) -> list[Tensor]:
    """The tensors that were given one by one, or as one list."""
    given = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
    return [each for each in given if isinstance(each, Tensor)]


@handles(torch.meshgrid)
def meshgrid(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    if len({device_of(each) for each in _tensors(args)}) > 1:
        raise RuntimeError("meshgrid expects all tensors to have the same device")
    return func(*args, **kwargs)


@handles(torch.linalg.matrix_rank)
def matrix_rank(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    matrix = device_of(args[0] if args else kwargs["input"])
    for name in ("atol", "rtol", "tol"):
        given = kwargs.get(name)
        if isinstance(given, Tensor) and device_of(given) != matrix:
            raise RuntimeError(
                f"torch.linalg.matrix_rank: Expected {name} and input tensors to be on the same device, "
                f"but got {name} on {device_of(given)} and input on {matrix}"
            )
    return func(*args, **kwargs)


@handles(torch.ctc_loss, torch.nn.functional.ctc_loss)
def ctc_loss(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Lengths are read on the host, as PyTorch does where no mode is on: aten/src/ATen/native/LossCTC.cpp."""
    given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
    for name in (2, 3, "input_lengths", "target_lengths"):
        each = given.get(name)
        if isinstance(each, Tensor):
            if (place := simulated_device_of(each)) is not None:
                mode.ledger.waited(place.device)
            given[name] = Tensor.tolist(each)
    return func(*(given[number] for number in range(len(args))), **{name: given[name] for name in kwargs})


@handles(torch.inner, Tensor.inner)
def inner(mode: SimulationFunctionMode, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    one, *rest = [device_of(each) for each in (*args, *kwargs.values()) if isinstance(each, Tensor)]
    for other in rest:
        if other.type != one.type:
            raise RuntimeError(
                f"Expected tensor to have {one.type} DeviceType, but got tensor with {other.type} DeviceType "
                "(while checking arguments for inner())"
            )
    return func(*args, **kwargs)
