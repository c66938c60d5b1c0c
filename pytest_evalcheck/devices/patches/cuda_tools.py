"""Tools of CUDA that change no values: NVTX ranges, the runtime behind `torch.cuda.cudart`, settings of TunableOp."""
# ruff: noqa: ARG002, N802, N815  (names and parameters are CUDA's)

from __future__ import annotations

import itertools
import threading
from typing import Any

import torch

from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.patches.patches import Patches


class _Ranges(threading.local):
    def __init__(self) -> None:
        self.depth = 0


class Nvtx:
    """Ranges and marks for a profiler: counted, as their depth is returned. torch/csrc/cuda/shared/nvtx.cpp."""

    def __init__(self) -> None:
        self._open = _Ranges()
        self._handles = itertools.count(1)

    def rangePushA(self, message: str) -> int:
        self._open.depth += 1
        return self._open.depth - 1

    def rangePop(self) -> int:
        """The depth of the range that ends; negative where none is open, as NVTX returns."""
        if not self._open.depth:
            return -2
        self._open.depth -= 1
        return self._open.depth

    def rangeStartA(self, message: str) -> int:
        return next(self._handles)

    def rangeEnd(self, handle: int) -> None:
        pass

    def markA(self, message: str) -> None:
        pass

    def deviceRangeStart(self, message: str, stream: int) -> object:
        return object()

    def deviceRangeEnd(self, handle: object, stream: int) -> None:
        pass


class Error(int):
    """A result of CUDA's runtime."""

    success: Error


Error.success = Error(0)


# CUDA Runtime API, cudaGetErrorString
_ERRORS = {
    0: "no error",
    1: "invalid argument",
    2: "out of memory",
    3: "initialization error",
    100: "no CUDA-capable device is detected",
    101: "invalid device ordinal",
    700: "an illegal memory access was encountered",
    710: "device-side assert triggered",
    999: "unknown error",
}


class Runtime:
    """Result of `torch.cuda.cudart()`. No profiler is attached. torch/csrc/cuda/shared/cudart.cpp."""

    cudaError = Error

    def __init__(self, memory_info: Any) -> None:
        self.cudaMemGetInfo = memory_info

    def cudaGetErrorString(self, error: int) -> str:
        return _ERRORS.get(error, "unrecognized error code")

    def cudaProfilerStart(self) -> Error:
        return Error.success

    def cudaProfilerStop(self) -> Error:
        return Error.success

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cuda"):
            raise AttributeError(f"'cudart' has no attribute {name!r}")
        raise CannotSimulate(f"torch.cuda.cudart().{name}", "there is no CUDA runtime; run this on the device itself.")


def tunable() -> dict[str, Any]:
    """The settings of TunableOp, with its defaults: it changes the speed only. aten/src/ATen/cuda/tunable/Tunable.h.

    Results and validators are those of the device: `bindings` refuses them.
    """
    values: dict[str, Any] = {
        "enabled": False,
        "tuning": True,
        "untuned": False,
        "max_tuning_duration": 30,
        "max_tuning_iterations": 100,
        "rotating_buffer_size": -1,
        "filename": "tunableop_results0.csv",
    }

    def setter(key: str) -> Any:
        return lambda value, *_: values.__setitem__(key, value)

    def getter(key: str) -> Any:
        return lambda: values[key]

    found = {
        "_cuda_tunableop_enable": setter("enabled"),
        "_cuda_tunableop_is_enabled": getter("enabled"),
        "_cuda_tunableop_tuning_enable": setter("tuning"),
        "_cuda_tunableop_tuning_is_enabled": getter("tuning"),
        "_cuda_record_untuned_enable": setter("untuned"),
        "_cuda_record_untuned_is_enabled": getter("untuned"),
        "_cuda_tunableop_get_results": tuple,
    }
    for key in ("max_tuning_duration", "max_tuning_iterations", "rotating_buffer_size", "filename"):
        found[f"_cuda_tunableop_set_{key}"], found[f"_cuda_tunableop_get_{key}"] = setter(key), getter(key)
    return {**found, "_cuda_tunableop_set_numerical_check_tolerances": lambda *_: None}


def install(patches: Patches, memory_info: Any) -> None:
    """Replace what `torch.cuda` has of the tools."""
    patches.set_existing(torch.cuda.nvtx, _nvtx=Nvtx())
    patches.set(torch.cuda, "_cudart", Runtime(memory_info))
