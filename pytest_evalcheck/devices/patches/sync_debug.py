"""`torch.cuda.set_sync_debug_mode`: what the ledger records is warned of, or is an error.

c10/cuda/CUDAFunctions.cpp, warn_or_error_on_sync: its callers are copies that are waited for, in both directions, reads
of values and sizes, and `Stream.synchronize`. `torch.cuda.synchronize` and `Event.synchronize` are not among them.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from pytest_evalcheck.devices.state import Simulation

TEXT = "called a synchronizing CUDA operation"
_PROTOTYPE = (
    "Synchronization debug mode is a prototype feature and does not yet detect all synchronizing operations "
    "(Triggered internally at torch/csrc/cuda/Module.cpp.)"
)
_OFF, _WARN, _ERROR = range(3)


class SyncDebugMode:
    """The mode of one simulation, which holds for all threads, as in PyTorch."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.mode = _OFF
        self._has_warned = False

    def functions(self) -> dict[str, Any]:
        """The functions in C that `torch.cuda` calls. torch/csrc/cuda/Module.cpp."""
        return {"_cuda_get_sync_debug_mode": lambda: self.mode, "_cuda_set_sync_debug_mode": self._set}

    def _set(self, mode: int) -> None:
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(_PROTOTYPE, UserWarning, stacklevel=3)
        if not isinstance(mode, int):
            raise RuntimeError("invalid argument to set_sync_debug_mode")
        if not 0 <= mode <= _ERROR:
            raise RuntimeError("invalid value of debug_mode, expected one of 0,1,2")
        self.mode = int(mode)
        self.simulation.ledger.sync_debug = None if self.mode == _OFF else self._report

    def _report(self, device: torch.device, file: str, line: int) -> None:
        if device.type != "cuda":
            return
        if self.mode == _ERROR:
            raise RuntimeError(TEXT)
        text = f"{TEXT} (Triggered internally at c10/cuda/CUDAFunctions.cpp.)"
        warnings.warn_explicit(text, UserWarning, file, line)
