"""Optimizers group tensors by device in C++, where all are on the CPU: here they are grouped by simulated device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import device_of
from pytest_evalcheck.devices.patches.patches import Patches

_MIXED = (
    "Tensors of the same index must be on the same device and the same dtype except `step` tensors that can be CPU and "
    "float32/64 notwithstanding"
)
Groups = dict[tuple[torch.device, torch.dtype], tuple[list[list[Tensor | None]], list[int]]]


def install(patches: Patches) -> None:
    """Patch the function that `torch.optim`, `clip_grad_norm_` and `GradScaler` group tensors with."""
    patches.set_existing(torch._C, _group_tensors_by_device_and_dtype=group_tensors)


def group_tensors(lists: Any, with_indices: bool = False) -> Groups:
    """Return the result of PyTorch's function, by simulated device. Source: aten/src/ATen/native/ForeachUtils.h.

    Each tensor of the first list decides for those of the same index in the others; an empty list stays empty.
    """
    groups: Groups = {}
    for index, first in enumerate(lists[0]):
        device = device_of(first)
        columns, indices = groups.setdefault((device, first.dtype), ([[] for _ in lists], []))
        for column, items in zip(columns, lists, strict=True):
            if items:
                _require_alike(items[index], device, first.dtype)
                column.append(items[index])
        if with_indices:
            indices.append(index)
    return groups


def _require_alike(tensor: Tensor | None, device: torch.device, dtype: torch.dtype) -> None:
    if tensor is None or tensor.dtype in (torch.float32, torch.float64):
        alike = tensor is None or device_of(tensor) in (device, torch.device("cpu"))
    else:
        alike = device_of(tensor) == device and tensor.dtype is dtype
    if not alike:
        raise RuntimeError(_MIXED)
