"""Simulated device of a tensor: a mark on its storage, which views, in-place operations and `.data` share.

PyTorch keeps the Python object of a storage, with its attributes, for as long as the storage lives. A tensor without a
storage of its own (sparse, functorch, wrapper subclasses) is where its parts are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_memory import DeviceMemory

CPU = torch.device("cpu")
MARK, PINNED, ALLOCATION = "_evalcheck_device", "_evalcheck_pinned", "_evalcheck_allocation"
PLAIN_TENSOR_TYPES = (Tensor, torch.nn.Parameter, *((torch.nn.Buffer,) if hasattr(torch.nn, "Buffer") else ()))


class SimulatedDevice:
    """One device, for all simulations of a process: tensors are compared by its identity.

    A tensor that outlives its simulation is on the device again in a later one that has it.
    """

    __slots__ = ("available", "generator", "memory", "on_mark", "torch_device", "type", "unsupported_dtypes")

    def __init__(self, torch_device: torch.device, unsupported_dtypes: dict[torch.dtype, str]) -> None:
        self.torch_device = torch_device
        self.type: str = torch_device.type
        self.unsupported_dtypes = unsupported_dtypes
        self.memory = DeviceMemory(torch_device)
        self.generator: Any = None
        """Default generator of the device in the open simulation."""
        self.available = False
        """True where the open simulation has it."""
        self.on_mark: Callable[[Tensor], Any] | None = None
        """Function that is called with each tensor that is put on the device."""

    def __repr__(self) -> str:
        return str(self.torch_device)

    def __deepcopy__(self, memo: dict[int, Any]) -> SimulatedDevice:
        return self


def simulated_device_of(tensor: Tensor) -> SimulatedDevice | None:
    """The simulated device of a tensor, or None where it is on a real one."""
    if is_wrapper(tensor):
        return simulated_device_of(_parts(tensor)[0])
    try:
        return getattr(tensor.untyped_storage(), MARK, None)
    except (RuntimeError, NotImplementedError):
        return next((simulated_device_of(part) for part in _parts(tensor)), None)


def device_of(tensor: Tensor) -> torch.device:
    """The simulated device of a tensor, or else its real one."""
    device = simulated_device_of(tensor)
    if device is not None:
        return device.torch_device
    with torch._C.DisableTorchFunction():
        return tensor.device


def first_simulated_device(value: Any) -> SimulatedDevice | None:
    """The device of the first marked tensor in nested containers."""
    if isinstance(value, Tensor):
        return simulated_device_of(value)
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return None
    return next((device for item in value if (device := first_simulated_device(item)) is not None), None)


def mark(tensor: Tensor, device: SimulatedDevice | None) -> Tensor:
    """Put a tensor that owns its memory on a device, or on the CPU (None). Returns the tensor.

    Raises the device's error where the memory does not fit; the tensor is not on the device then.
    """
    try:
        storage = tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):
        storage = None
    if storage is not None and (type(tensor) in PLAIN_TENSOR_TYPES or not _parts(tensor)):
        if getattr(storage, MARK, None) is not device:
            mark_storage(storage, device)
        if device is not None and device.on_mark is not None:
            device.on_mark(tensor)
    else:
        for part in _parts(tensor):
            mark(part, device)
    return tensor


def mark_storage(storage: Any, device: SimulatedDevice | None) -> None:
    """Put memory on a device, or on the CPU (None). Raises the device's error where it does not fit."""
    setattr(storage, ALLOCATION, None if device is None else device.memory.allocate(storage.nbytes()))
    setattr(storage, MARK, device)


def recount(storage: Any) -> None:
    """Count the memory of a storage again, whose size has changed. The device has both for a moment."""
    device, before = getattr(storage, MARK, None), getattr(storage, ALLOCATION, None)
    if device is not None and (before is None or before != storage.nbytes()):
        setattr(storage, ALLOCATION, device.memory.allocate(storage.nbytes()))


def mark_pinned(tensor: Tensor) -> Tensor:
    """Record that a CPU tensor is in pinned memory. Returns the tensor."""
    setattr(tensor.untyped_storage(), PINNED, True)
    return tensor


def is_wrapper(tensor: Tensor) -> bool:
    """Return whether a tensor consists of others, which have the storages."""
    return type(tensor) not in PLAIN_TENSOR_TYPES and hasattr(tensor, "__tensor_flatten__")


def _parts(tensor: Tensor) -> list[Tensor]:
    """The tensors that a tensor without a storage consists of. The first one determines the device."""
    if is_wrapper(tensor):
        names, _ = tensor.__tensor_flatten__()
        return [getattr(tensor, name) for name in names]
    # Before 2.5 the parts of a sparse tensor are asked for by an operator, which devices lack.
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        if tensor.layout is torch.sparse_coo:
            return [tensor._values(), tensor._indices()]
        if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
            return [tensor.values(), tensor.crow_indices(), tensor.col_indices()]
        if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
            return [tensor.values(), tensor.ccol_indices(), tensor.row_indices()]
        if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            return [torch._C._functorch.get_unwrapped(tensor)]
        if torch._C._functorch.is_legacy_batchedtensor(tensor):
            return [_unwrap_batched(tensor)]
    return []


def _unwrap_batched(tensor: Tensor) -> Tensor:
    """Return the tensor that the older `vmap` wrapped, which autograd has for `is_grads_batched`."""
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    unwrapped: Tensor = torch._remove_batch_dim(tensor, level, 1, 0)
    return unwrapped
