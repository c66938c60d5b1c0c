"""Asserts of CUDA kernels: the error comes when the host waits, and stays until the simulation ends."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import SimulatedDevice, simulated_device_of
from pytest_evalcheck.devices.ledger import Site, call_site
from pytest_evalcheck.devices.queues import HappensBefore, StreamPosition
from pytest_evalcheck.devices.release import TORCH_RELEASE

ERROR: type[Exception] = getattr(torch, "AcceleratorError", RuntimeError)
# c10/cuda/CUDAException.cpp and CUDAMiscFunctions.cpp
_TRIGGERED = "CUDA error: device-side assert triggered"
_SEARCH = (
    "\nSearch for `cudaErrorAssert' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html "
    "for more information."
)
_ASYNCHRONOUS = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1"
)
_COMPILE = "\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"


@dataclasses.dataclass(frozen=True)
class Failure:
    """An assert that failed in a kernel."""

    device: SimulatedDevice
    work: StreamPosition
    text: str


class DeviceAsserts:
    """The asserts of one simulation that failed. A device is of no use after the first."""

    def __init__(self, order: HappensBefore, *, deferred: bool) -> None:
        self.order, self.deferred = order, deferred
        self.failures: list[Failure] = []

    def fail(self, device: SimulatedDevice, assertion: str) -> None:
        """A kernel on the current stream fails. The host sees it when it waits, or now with CUDA_LAUNCH_BLOCKING=1."""
        file, line, call = call_site()
        blocking = os.environ.get("CUDA_LAUNCH_BLOCKING") == "1"
        text = (
            _TRIGGERED + (_SEARCH if TORCH_RELEASE >= (2, 9) else "") + ("" if blocking else _ASYNCHRONOUS) + _COMPILE
        )
        cause = f" It was caused by {Site(call, file, line)}." if file else ""
        text += f"\nAssertion `{assertion}` failed.{cause}"
        queue = self.order.current(device.torch_device)
        self.failures.append(Failure(device, queue.add_work(), text))
        if blocking:
            self.order.host_waits(queue.everything())

    def raise_if_seen(self) -> None:
        """Raise the error where the host has waited for a kernel that failed."""
        for failure in self.failures:
            if self.order.is_complete(failure.work):
                failure.device.on_mark = self._refuse_new
                raise ERROR(failure.text)

    def raise_if_used(self, args: Any, kwargs: dict[str, Any]) -> None:
        """Raise the error for an operator with a tensor on a device whose failure was seen."""
        failed = {failure.device for failure in self.failures if self.order.is_complete(failure.work)}
        if failed:
            for value in (*args, *kwargs.values()):
                for item in value if isinstance(value, (list, tuple)) else (value,):
                    if isinstance(item, Tensor) and simulated_device_of(item) in failed:
                        self.raise_if_seen()

    def _refuse_new(self, tensor: Tensor) -> None:
        del tensor
        self.raise_if_seen()
