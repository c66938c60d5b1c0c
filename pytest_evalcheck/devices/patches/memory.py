"""How much memory a simulated device would have in use: the storages that are marked and alive."""
# ruff: noqa: ARG005  (the parameters are PyTorch's)

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from pytest_evalcheck.devices.device_marks import MARK

if TYPE_CHECKING:
    from pytest_evalcheck.devices.simulation import Simulation


class Memory:
    """Counts on being asked, as counting at every operator would cost every user.

    What only autograd still holds is not seen. The peak is the most that was ever seen on being asked.
    """

    def __init__(self, simulation: Simulation, kind: str, index: Callable[[Any], int]) -> None:
        self.simulation, self.kind, self.index = simulation, kind, index
        self.peaks: dict[torch.device, int] = {}

    def allocated(self, device: Any = None) -> int:
        """Bytes in use on a device."""
        place = self.simulation.places[torch.device(self.kind, self.index(device))]
        storages = {}
        if gc.get_freeze_count():  # what is frozen would not be listed
            gc.unfreeze()
        with torch._C.DisableTorchFunction():
            for each in gc.get_objects():
                if issubclass(type(each), torch.Tensor):
                    try:
                        storage = each.untyped_storage()
                    except (RuntimeError, NotImplementedError):
                        continue
                    if getattr(storage, MARK, None) is place:
                        storages[storage._cdata] = storage.nbytes()
        used = int(sum(storages.values()))
        self.peaks[place.device] = max(used, self.peaks.get(place.device, 0))
        return used

    def peak(self, device: Any = None) -> int:
        """The most bytes that were in use whenever somebody asked."""
        self.allocated(device)
        return self.peaks[torch.device(self.kind, self.index(device))]

    def forget(self, device: Any = None) -> None:
        """Start a new peak."""
        self.peaks.pop(torch.device(self.kind, self.index(device)), None)

    def stats(self, device: Any = None) -> OrderedDict[str, int]:
        """The names of `torch.cuda.memory_stats` that mean something here."""
        used, peak = self.allocated(device), self.peak(device)
        found: OrderedDict[str, int] = OrderedDict()
        for what in ("active_bytes", "allocated_bytes", "reserved_bytes", "requested_bytes"):
            found[f"{what}.all.current"], found[f"{what}.all.peak"] = used, peak
        for what in (
            "num_alloc_retries",
            "num_ooms",
            "inactive_split_bytes.all.current",
            "inactive_split_bytes.all.peak",
        ):
            found[what] = 0
        return found

    def answers(self) -> dict[str, Any]:
        """The functions of `torch.cuda` about memory."""
        total = 16 * 2**30
        return {
            "memory_allocated": self.allocated,
            "memory_reserved": self.allocated,
            "memory_cached": self.allocated,
            "max_memory_allocated": self.peak,
            "max_memory_reserved": self.peak,
            "max_memory_cached": self.peak,
            "reset_peak_memory_stats": self.forget,
            "reset_max_memory_allocated": self.forget,
            "reset_max_memory_cached": self.forget,
            "reset_accumulated_memory_stats": lambda device=None: None,
            "memory_stats": self.stats,
            "memory_summary": lambda device=None, abbreviated=False: f"{self.allocated(device)} bytes in use",
            "mem_get_info": lambda device=None: (total - self.allocated(device), total),
            "empty_cache": lambda: None,
            "set_per_process_memory_fraction": lambda fraction, device=None: None,
        }
