"""The dtypes that a kind of device does not support, and PyTorch's error for each."""

from __future__ import annotations

import torch

from pytest_evalcheck.devices.device_marks import SimulatedDevice

NO_FLOAT64 = (
    "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. "
    "Please use float32 instead."
)
NOT_ON_MPS = "Trying to convert {} to the MPS backend but it does not have support for that dtype."
_MPS = {
    torch.complex128: "ComplexDouble",
    torch.float8_e4m3fn: "Float8_e4m3fn",
    torch.float8_e5m2: "Float8_e5m2",
    torch.float8_e4m3fnuz: "Float8_e4m3fnuz",
    torch.float8_e5m2fnuz: "Float8_e5m2fnuz",
}
# aten/src/ATen/mps/EmptyTensor.cpp, MPS_ERROR_DOUBLE_NOT_SUPPORTED; native/mps/OperationUtils.mm, getMPSDataType
UNSUPPORTED_DTYPES: dict[str, dict[torch.dtype, str]] = {
    "cuda": {},
    "mps": {torch.float64: NO_FLOAT64, **{dtype: NOT_ON_MPS.format(name) for dtype, name in _MPS.items()}},
}


def require_dtype(dtype: torch.dtype, device: SimulatedDevice | None) -> None:
    """Raise the device's TypeError for a dtype that it does not support. The CPU (None) supports all."""
    if device is not None and dtype in device.unsupported_dtypes:
        raise TypeError(device.unsupported_dtypes[dtype])
