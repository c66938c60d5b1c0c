"""Handlers for functions that create tensors with a kernel that a device may lack: no argument shows the device."""
# ruff: noqa: D103  (all handlers have one signature, and are named after what they handle)

from __future__ import annotations

from typing import Any

import torch

from pytest_evalcheck.devices.device_marks import simulated_device_of
from pytest_evalcheck.devices.handlers.creation import create, requested_device
from pytest_evalcheck.devices.modes.lacking import record_fallback, require_fallback
from pytest_evalcheck.devices.rules.missing_kernels import KEYS
from pytest_evalcheck.devices.rules.native_functions import lacking
from pytest_evalcheck.devices.state import ThreadState, handles


@handles(torch.logspace)
def logspace(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    device, _ = requested_device(state, dict(kwargs))
    missing = "" if device is None else lacking("logspace.out", KEYS[device.type])
    if device is None or not missing:
        return create(state, func, args, kwargs)
    require_fallback(state, missing, KEYS[device.type])
    out = create(state, func, args, kwargs)
    record_fallback(state, [out], [out], simulated_device_of(out))
    return out
