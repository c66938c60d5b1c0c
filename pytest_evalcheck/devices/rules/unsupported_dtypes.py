"""The dtypes that a kind of device does not support, and PyTorch's error for each."""

from __future__ import annotations

import torch

from pytest_evalcheck.devices.device_marks import SimulatedDevice
from pytest_evalcheck.devices.release import TORCH_RELEASE

NO_FLOAT64 = (
    "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. "
    "Please use float32 instead."
)
NOT_ON_MPS = "Trying to convert {} to the MPS backend but it does not have support for that dtype."
# What MPS lacks, with the release that has it; None is no release yet. aten/src/ATen/mps/EmptyTensor.cpp,
# MPS_ERROR_DOUBLE_NOT_SUPPORTED; native/mps/OperationUtils.mm, getMPSDataType. The simulated Mac has macOS 14 or newer,
# which bfloat16 and complex64 need in releases before 2.9 (checkSupportsBFloat16, checkSupportsComplex).
_MPS: dict[str, tuple[str, tuple[int, int] | None]] = {
    "complex128": ("ComplexDouble", None),
    "uint16": ("UInt16", (2, 9)),
    "uint32": ("UInt32", (2, 9)),
    "uint64": ("UInt64", (2, 9)),
    "float8_e4m3fn": ("Float8_e4m3fn", None),
    "float8_e5m2": ("Float8_e5m2", None),
    "float8_e4m3fnuz": ("Float8_e4m3fnuz", None),
    "float8_e5m2fnuz": ("Float8_e5m2fnuz", None),
    "float8_e8m0fnu": ("Float8_e8m0fnu", None),
    "float4_e2m1fn_x2": ("Float4_e2m1fn_x2", None),
}


def lacked_by_mps(release: tuple[int, ...]) -> dict[torch.dtype, str]:
    """The dtypes of this PyTorch that MPS does not have in a release, each with PyTorch's error."""
    lacked = {torch.float64: NO_FLOAT64}
    for name, (shown, since) in _MPS.items():
        if hasattr(torch, name) and (since is None or release < since):
            lacked[getattr(torch, name)] = NOT_ON_MPS.format(shown)
    return lacked


# CUDA stores every dtype; which kernels compute with it is not simulated.
UNSUPPORTED_DTYPES: dict[str, dict[torch.dtype, str]] = {"cuda": {}, "mps": lacked_by_mps(TORCH_RELEASE)}


def require_dtype(dtype: torch.dtype, device: SimulatedDevice | None) -> None:
    """Raise the device's TypeError for a dtype that it does not support. The CPU (None) supports all."""
    if device is not None and dtype in device.unsupported_dtypes:
        raise TypeError(device.unsupported_dtypes[dtype])
