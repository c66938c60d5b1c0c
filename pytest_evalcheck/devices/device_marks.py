"""Where a tensor claims to be: a mark on its storage, so that views, in-place ops and `.data` share it.

PyTorch keeps the Python object of a storage for as long as the storage lives, with its attributes, so the mark is as
lasting as the memory. What has no storage of its own (sparse, functorch, wrapper subclasses) is where its parts are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CPU = torch.device("cpu")
MARK = "_evalcheck_place"
PINNED = "_evalcheck_pinned"


class SimulatedDevice:
    """A device, for all the simulations of a process: its identity is what tensors are compared by.

    So a tensor that is left over is there again in a later simulation that has the device, and recognised in others.
    """

    __slots__ = ("device", "open", "type", "unsupported_dtypes")

    def __init__(self, device: torch.device, unsupported_dtypes: dict[torch.dtype, str]) -> None:
        self.device = device
        self.type: str = device.type
        self.unsupported_dtypes = unsupported_dtypes
        self.open = False
        """Whether the simulation that runs has it."""

    def __repr__(self) -> str:
        return str(self.device)

    def __deepcopy__(self, memo: dict[int, Any]) -> SimulatedDevice:
        return self


def simulated_device_of(tensor: Tensor) -> SimulatedDevice | None:
    """The simulated device a tensor is on, or None where it is really where it says."""
    if type(tensor) not in PLAIN_TENSOR_TYPES and hasattr(tensor, "__tensor_flatten__"):
        return simulated_device_of(parts(tensor)[0])
    try:
        return getattr(tensor.untyped_storage(), MARK, None)
    except (RuntimeError, NotImplementedError):
        for part in parts(tensor):
            return simulated_device_of(part)
    return None


def mark(tensor: Tensor, place: SimulatedDevice | None) -> Tensor:
    """Mark a tensor that owns its memory. Returns it."""
    try:
        storage = tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):
        storage = None
    inner = parts(tensor) if storage is None or type(tensor) not in PLAIN_TENSOR_TYPES else ()
    if inner:
        for part in inner:
            mark(part, place)
    elif storage is not None:
        setattr(storage, MARK, place)
    return tensor


PLAIN_TENSOR_TYPES = (
    (Tensor, torch.nn.Parameter, torch.nn.Buffer) if hasattr(torch.nn, "Buffer") else (Tensor, torch.nn.Parameter)
)


def parts(tensor: Tensor) -> list[Tensor]:
    """The tensors that one without a storage of its own is made of; the one that decides comes first."""
    if type(tensor) not in PLAIN_TENSOR_TYPES and hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        return [getattr(tensor, name) for name in names]
    with torch._C.DisableTorchFunction():
        if tensor.layout is torch.sparse_coo:
            return [tensor._values(), tensor._indices()]
        if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
            return [tensor.values(), tensor.crow_indices(), tensor.col_indices()]
        if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
            return [tensor.values(), tensor.ccol_indices(), tensor.row_indices()]
        if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            return [torch._C._functorch.get_unwrapped(tensor)]
    return []


def real_device(tensor: Tensor) -> torch.device:
    """What PyTorch itself says."""
    with torch._C.DisableTorchFunction():
        return tensor.device


def device_of(tensor: Tensor) -> torch.device:
    """The simulated device of a tensor, or its real one."""
    place = simulated_device_of(tensor)
    return real_device(tensor) if place is None else place.device
