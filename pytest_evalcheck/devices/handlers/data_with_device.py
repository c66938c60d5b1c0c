"""Handlers for functions that create tensors from data which has a device already: tensors, storages, sparse parts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import CPU, MARK, device_of, simulated_device_of
from pytest_evalcheck.devices.handlers.creation import _call_factory, create, create_from_data, default_device
from pytest_evalcheck.devices.handlers.transfers import transfer
from pytest_evalcheck.devices.state import ThreadState, handles


def _requested(kwargs: dict[str, Any]) -> Any:
    """The `device=` of a call, which may be 0, or the default device, or None."""
    wanted = kwargs.get("device")
    return default_device() if wanted is None else wanted


@handles(torch.asarray)
def asarray(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An alias where the device and the dtype are right, else a copy: torch/csrc/utils/tensor_new.cpp, asarray."""
    wanted = _requested(kwargs)
    kwargs.pop("device", None)
    data = args[0] if args else kwargs.pop("obj")
    if wanted is None:
        return func(data, **kwargs)
    device, ours = state.simulation.find(wanted)
    if not ours:
        return func(data, device=wanted, **kwargs)
    gradient = {"requires_grad": kwargs.pop("requires_grad")} if "requires_grad" in kwargs else {}
    copy = kwargs.pop("copy", None)
    if not isinstance(data, Tensor):
        data = _call_factory(state, func, (data,), {**kwargs, "copy": None if copy is True else copy})
    source = simulated_device_of(data)
    if source is device:
        return func(data, **kwargs, copy=copy, **gradient)
    if copy is False:
        target = CPU if device is None else device.torch_device
        raise ValueError(f"can't alias tensor from device '{device_of(data)}' to '{target}'.")
    moved = transfer(state, data, device, kwargs.get("dtype"), copy=bool(copy))
    return func(moved, **gradient)


@handles(torch.tensor, torch.as_tensor)
def tensor_of_storage(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The memory itself, moved where it is on another device: torch/csrc/utils/tensor_new.cpp, internal_new_from_data.

    PyTorch reads one number of it to learn its shape; the host waits for that.
    """
    data = args[0] if args else kwargs.get("data")
    if not torch.is_storage(data):
        return create_from_data(state, func, args, kwargs)
    wanted = _requested(kwargs)
    device, ours = state.simulation.find(CPU if wanted is None else wanted)
    if not ours:
        return create_from_data(state, func, args, kwargs)
    kwargs.pop("device", None)
    requires_grad = kwargs.pop("requires_grad", False)
    storage = getattr(data, "_untyped_storage", data)
    source = getattr(storage, MARK, None)
    if source is not None:
        state.ledger.record_sync(source.torch_device)
    setattr(storage, MARK, None)
    try:
        tensor = _call_factory(state, func, args, kwargs)
    finally:
        setattr(storage, MARK, source)
    moved = transfer(state, tensor, device)
    return moved.requires_grad_() if requires_grad else moved


_SPARSE = {
    "sparse_coo_tensor": ("indices", "values"),
    "sparse_compressed_tensor": ("compressed_indices", "plain_indices", "values"),
    "sparse_csr_tensor": ("crow_indices", "col_indices", "values"),
    "sparse_csc_tensor": ("ccol_indices", "row_indices", "values"),
    "sparse_bsr_tensor": ("crow_indices", "col_indices", "values"),
    "sparse_bsc_tensor": ("ccol_indices", "row_indices", "values"),
}


@handles(*(getattr(torch, name) for name in _SPARSE if hasattr(torch, name)))
def sparse(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Move the parts to `device=`, else they decide: tensor_new.cpp, sparse_coo_tensor_ctor."""
    wanted = _requested(kwargs)
    if wanted is None:
        return func(*args, **kwargs)
    device, ours = state.simulation.find(wanted)
    if not ours:
        return create(state, func, args, kwargs)
    names = _SPARSE[func.__name__]
    parts = [transfer(state, part, device) if isinstance(part, Tensor) else part for part in args[: len(names)]]
    for name in names:
        if isinstance(kwargs.get(name), Tensor):
            kwargs[name] = transfer(state, kwargs[name], device)
    return create(state, func, (*parts, *args[len(names) :]), kwargs)
