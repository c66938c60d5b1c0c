"""How much memory of a simulated device is in use: the storages that are marked and alive."""
# ruff: noqa: ARG005  (the parameters are PyTorch's)

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

from pytest_evalcheck.devices.device_marks import MARK
from pytest_evalcheck.devices.state import Simulation
from pytest_evalcheck.live_objects import live_objects

TOTAL_BYTES = 16 * 2**30


class Memory:
    """Counts when it is asked, as counting at every operator would cost every user.

    What only autograd holds is not seen. The peak is the most that was seen when it was asked.
    """

    def __init__(self, simulation: Simulation, device_for: Callable[[Any], torch.device]) -> None:
        self.simulation, self.device_for = simulation, device_for
        self.peaks: dict[torch.device, int] = {}

    def allocated(self, device: Any = None) -> int:
        """Bytes in use on a device."""
        simulated = self.simulation.devices[self.device_for(device)]
        sizes: dict[int, int] = {}
        if gc.get_freeze_count():  # frozen objects would not be listed
            gc.unfreeze()
        with torch._C.DisableTorchFunction():
            for tensor in live_objects(lambda cls: issubclass(cls, torch.Tensor)):
                try:
                    storage = tensor.untyped_storage()
                except (RuntimeError, NotImplementedError):
                    continue
                if getattr(storage, MARK, None) is simulated:
                    sizes[storage._cdata] = storage.nbytes()
        used = sum(sizes.values())
        self.peaks[simulated.torch_device] = max(used, self.peaks.get(simulated.torch_device, 0))
        return used

    def peak(self, device: Any = None) -> int:
        """The most bytes that were in use when any function of this class was called."""
        self.allocated(device)
        return self.peaks[self.device_for(device)]

    def reset_peak(self, device: Any = None) -> None:
        """Start a new peak."""
        self.peaks.pop(self.device_for(device), None)

    def stats(self, device: Any = None) -> OrderedDict[str, int]:
        """The entries of `torch.cuda.memory_stats` that have a meaning here."""
        used, peak = self.allocated(device), self.peak(device)
        found: OrderedDict[str, int] = OrderedDict()
        for name in ("active_bytes", "allocated_bytes", "reserved_bytes", "requested_bytes"):
            found[f"{name}.all.current"], found[f"{name}.all.peak"] = used, peak
        for name in (
            "num_alloc_retries",
            "num_ooms",
            "inactive_split_bytes.all.current",
            "inactive_split_bytes.all.peak",
        ):
            found[name] = 0
        return found

    def functions(self) -> dict[str, Any]:
        """The functions of `torch.cuda` about memory, by name."""
        return {
            **dict.fromkeys(("memory_allocated", "memory_reserved", "memory_cached"), self.allocated),
            **dict.fromkeys(("max_memory_allocated", "max_memory_reserved", "max_memory_cached"), self.peak),
            **dict.fromkeys(
                ("reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached"), self.reset_peak
            ),
            "reset_accumulated_memory_stats": lambda device=None: None,
            "memory_stats": self.stats,
            "memory_summary": lambda device=None, abbreviated=False: f"{self.allocated(device)} bytes in use",
            "mem_get_info": lambda device=None: (TOTAL_BYTES - self.allocated(device), TOTAL_BYTES),
            "empty_cache": lambda: None,
            "set_per_process_memory_fraction": lambda fraction, device=None: None,
        }
