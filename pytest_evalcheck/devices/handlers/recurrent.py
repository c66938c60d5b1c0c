"""Handlers for recurrent layers, which compare devices in C++ before any operator runs."""
# ruff: noqa: ARG001  (all handlers have one signature, and are named after what they handle)

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import device_of
from pytest_evalcheck.devices.state import ThreadState, handles

_LAYERS = [getattr(torch._VF, name) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")]


@handles(*_LAYERS)
def recurrent(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Compare devices that the CPU's kernel does not compare. A kernel for packed sequences compares on CUDA only.

    aten/src/ATen/native/RNN.cpp, check_attributes; cudnn/RNN.cpp. An LSTM on MPS has a kernel without the check.
    """
    device, packed = device_of(args[0]), not isinstance(args[3], bool)
    states, weights = args[2:4] if packed else args[1:3]
    if device.type == "cuda" or not (packed or (device.type == "mps" and func == torch._VF.lstm)):
        _compare(device, "hidden", states)
        _compare(device, "parameter", weights)
    return func(*args, **kwargs)


def _compare(device: torch.device, name: str, tensors: Any) -> None:
    for tensor in (tensors,) if isinstance(tensors, Tensor) else tensors:
        if device_of(tensor) != device:
            raise RuntimeError(
                f"Input and {name} tensors are not at the same device, "
                f"found input tensor at {device} and {name} tensor at {device_of(tensor)}"
            )
