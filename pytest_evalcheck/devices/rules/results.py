"""The results of an operator are put on the device where it ran."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pytest_evalcheck.devices.device_marks import SimulatedDevice, mark
from pytest_evalcheck.devices.rules.unsupported_dtypes import require_dtype


def mark_results(out: Any, device: SimulatedDevice) -> Any:
    """Put what an operator returned on `device`. Raises TypeError for a dtype that the device does not support."""
    for item in out if isinstance(out, (tuple, list)) else (out,):
        if isinstance(item, Tensor):
            require_dtype(item.dtype, device)
            mark(item, device)
    return out
