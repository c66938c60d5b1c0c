"""Marks of the results of an operator: they are on the device where it ran."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import MARK, SimulatedDevice, mark, mark_storage
from pytest_evalcheck.devices.rules.unsupported_dtypes import require_dtype

_has_storage = torch._C._has_storage


def mark_results(out: Any, device: SimulatedDevice) -> Any:
    """Put what an operator returned on `device`. Raises TypeError for a dtype that the device does not support."""
    is_plain = type(out) is Tensor and device.on_mark is None and _has_storage(out)
    if is_plain and out.dtype not in device.unsupported_dtypes:  # most results, in the least time
        storage = out.untyped_storage()
        if getattr(storage, MARK, None) is not device:
            mark_storage(storage, device)
        return out
    for item in out if isinstance(out, (tuple, list)) else (out,):
        if isinstance(item, Tensor):
            require_dtype(item.dtype, device)
            mark(item, device)
    return out
