"""Handlers for composites whose C++ compares devices: here it sees only the CPU, and their parts may take a mixture."""
# ruff: noqa: ARG001  (all handlers have one signature, and are named after what they handle)

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import device_of
from pytest_evalcheck.devices.state import ThreadState, handles


def _argument(args: Any, kwargs: dict[str, Any], position: int, name: str) -> Any:
    return args[position] if len(args) > position else kwargs.get(name)


@handles(torch.quantile, torch.nanquantile, Tensor.quantile, Tensor.nanquantile)
def quantile(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """aten/src/ATen/native/Sorting.cpp, quantile_checks."""
    tensor, q = _argument(args, kwargs, 0, "input"), _argument(args, kwargs, 1, "q")
    if isinstance(q, Tensor) and device_of(q) != device_of(tensor):
        raise RuntimeError("quantile() q tensor must be on the same device as the input tensor")
    return func(*args, **kwargs)


@handles(torch.block_diag)
def block_diag(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """aten/src/ATen/native/TensorShape.cpp, block_diag."""
    for number, tensor in enumerate(args):
        if device_of(tensor) != device_of(args[0]):
            raise RuntimeError(
                "torch.block_diag: input tensors must all be on the same device. "
                f"Input 0 is on device {device_of(args[0])} and input {number} is on device {device_of(tensor)}"
            )
    return func(*args, **kwargs)


@handles(torch.take_along_dim, Tensor.take_along_dim)
def take_along_dim(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """aten/src/ATen/native/TensorAdvancedIndexing.cpp, _take_along_dim_helper."""
    tensor, indices = _argument(args, kwargs, 0, "input"), _argument(args, kwargs, 1, "indices")
    if isinstance(indices, Tensor) and device_of(indices) != device_of(tensor):
        raise RuntimeError(
            f"Expected tensor to have {device_of(tensor)} Device, but got tensor with {device_of(indices)} Device "
            "(while checking arguments for torch.take_along_dim():)"
        )
    return func(*args, **kwargs)


@handles(torch.gradient)
def gradient(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """aten/src/ATen/native/ReduceOps.cpp, pre_check_gradient."""
    tensor, spacing = _argument(args, kwargs, 0, "input"), kwargs.get("spacing")
    for each in spacing if isinstance(spacing, (list, tuple)) else ():
        if isinstance(each, Tensor) and device_of(each) != device_of(tensor):
            raise RuntimeError(
                "torch.gradient expected each tensor to be on the same device, "
                f"but got devices {device_of(tensor)} and {device_of(each)}!"
            )
    return func(*args, **kwargs)


@handles(torch.stft, Tensor.stft, torch.istft, Tensor.istft)
def stft(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """aten/src/ATen/native/SpectralOps.cpp, stft and istft."""
    tensor, window = _argument(args, kwargs, 0, "input"), _argument(args, kwargs, 4, "window")
    if isinstance(window, Tensor) and device_of(window) != device_of(tensor):
        raise RuntimeError(
            f"{func.__name__} input and window must be on the same device "
            f"but got self on {device_of(tensor)} and window on {device_of(window)}"
        )
    return func(*args, **kwargs)


@handles(torch.nn.functional.grid_sample, torch.grid_sampler, torch.grid_sampler_2d, torch.grid_sampler_3d)
def grid_sampler(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """aten/src/ATen/native/GridSamplerUtils.h, check_grid_sampler_common."""
    tensor, grid = _argument(args, kwargs, 0, "input"), _argument(args, kwargs, 1, "grid")
    if device_of(grid) != device_of(tensor):
        raise RuntimeError(
            "grid_sampler(): expected input and grid to be on same device, "
            f"but input is on {device_of(tensor)} and grid is on {device_of(grid)}"
        )
    return func(*args, **kwargs)
