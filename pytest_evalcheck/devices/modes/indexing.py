"""Costs of an index: copies of what is on the CPU, and waits for masks, whose hits are counted on the host.

aten/src/ATen/native/IndexingUtils.h, expandTensors, and TensorAdvancedIndexingUtils.h, canDispatchToMaskedFill and
make_info: torch ships both headers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import SimulatedDevice, mark, simulated_device_of
from pytest_evalcheck.devices.state import ThreadState

INDEXING_CALLS = (Tensor.__getitem__, Tensor.__setitem__)


def record_indexing(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any], device: SimulatedDevice) -> None:
    """Write into the ledger what reading or writing by indices on `device` transfers, and what the host waits for."""
    writes = "_put" in func._schema.name
    indices = [index for index in args[1] if isinstance(index, Tensor)]
    if writes:
        value, accumulates = args[2], kwargs.get("accumulate", args[3] if len(args) > 3 else False)
        if not accumulates and _is_masked_fill(indices, value, device):
            return
        if value.dim() == 0 and simulated_device_of(value) is None:
            state.record_transfer(value, None, device, waits=False)
    for index in indices:
        is_there = simulated_device_of(index) is not None
        if not is_mask(index):
            if not is_there:
                state.record_transfer(index, None, device, waits=False)
        elif is_there:
            state.ledger.record_sync(device.torch_device)
        else:  # CUDA copies the hits from pinned memory
            non_blocking = device.type == "cuda"
            state.record_transfer(index.nonzero(), None, device, waits=False, non_blocking=non_blocking)


def place_written_out(state: ThreadState, made: Tensor, device: SimulatedDevice) -> Tensor:
    """Put a tensor where `x[index]` makes it of what is written out: a list is copied to the device of `x`.

    A number that is written, as in `x[index] = 1.0`, stays on the host for CUDA.
    torch/csrc/autograd/python_variable_indexing.cpp, THPVariable_setitem and sequenceToVariable
    """
    if made.dim() == 0 and device.type == "cuda":
        return made
    if made.dim():
        state.record_transfer(made, None, device, waits=False)
    return mark(made, device)


def is_mask(index: Tensor) -> bool:
    """Return whether an index says of each element whether it is selected."""
    return index.dtype in (torch.bool, torch.uint8)


def _is_masked_fill(indices: list[Tensor], value: Tensor, device: SimulatedDevice) -> bool:
    """Return whether one value of the host is written through one mask on the device: `masked_fill_` counts no hits."""
    if value.numel() != 1 or simulated_device_of(value) is not None or len(indices) != 1:
        return False
    return is_mask(indices[0]) and simulated_device_of(indices[0]) is device
