"""Memory functions of `torch.cuda`, `torch.mps` and `torch.accelerator`: see `device_memory`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

from pytest_evalcheck.devices.device_memory import UNLIMITED, DeviceMemory
from pytest_evalcheck.devices.state import Simulation


class Memory:
    """The functions about the memory of one kind of device."""

    def __init__(self, simulation: Simulation, device_for: Callable[[Any], torch.device]) -> None:
        self.simulation, self.device_for = simulation, device_for

    def device_memory(self, device: Any = None) -> DeviceMemory:
        """The memory of a device, the current one where none is given."""
        memory = self.simulation.devices[self.device_for(device)].memory
        memory.collect()
        return memory

    def stats(self, device: Any = None) -> OrderedDict[str, int]:
        """The entries of `torch.cuda.memory_stats` that are about all pools together: there is one pool here."""
        memory = self.device_memory(device)
        freed, count_freed = memory.freed
        amounts = {
            **dict.fromkeys(
                ("active_bytes", "allocated_bytes", "requested_bytes"),
                (memory.used, memory.peak, memory.allocated, freed),
            ),
            "reserved_bytes": (
                memory.reserved,
                memory.peak_reserved,
                memory.peak_reserved,
                memory.peak_reserved - memory.reserved,
            ),
            **dict.fromkeys(
                ("active", "allocation"),
                (memory.count, memory.peak_count, memory.counted, count_freed),
            ),
            **dict.fromkeys(("segment", "inactive_split", "inactive_split_bytes"), (0, 0, 0, 0)),
        }
        found = {
            f"{name}.all.{metric}": value
            for name, values in amounts.items()
            for metric, value in zip(("current", "peak", "allocated", "freed"), values, strict=True)
        }
        for name in ("oversize_allocations", "oversize_segments"):
            found |= dict.fromkeys((f"{name}.{metric}" for metric in ("current", "peak", "allocated", "freed")), 0)
        found |= {"num_alloc_retries": memory.retries, "num_ooms": memory.ooms}
        found |= dict.fromkeys(("num_sync_all_streams", "num_device_alloc", "num_device_free", "max_split_size"), 0)
        return OrderedDict(sorted(found.items()))

    def info(self, device: Any = None) -> tuple[int, int]:
        """The bytes that are free, and those that there are."""
        memory = self.device_memory(device)
        return max(0, memory.total - memory.reserved), memory.total

    def set_fraction(self, fraction: Any, device: Any = None, most: int = 1) -> None:
        """Limit a device to this part of its memory: torch/cuda/memory.py and torch/mps/__init__.py."""
        memory = self.device_memory(device)
        if not isinstance(fraction, float):
            raise TypeError("Invalid type for fraction argument, must be `float`")
        if fraction < 0 or fraction > most:
            raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~{most}")
        unlimited = fraction == 0 and memory.device.type == "mps"
        memory.set_limit(UNLIMITED if unlimited else int(fraction * memory.total))

    def fraction(self, device: Any = None) -> float:
        """The part of its memory that a device may use."""
        memory = self.device_memory(device)
        return min(1.0, memory.limit / memory.total)

    def empty_cache(self) -> None:
        """Empty the caches of all devices of this kind, as PyTorch does."""
        for device in self.simulation.devices.values():
            device.memory.empty_cache()

    def summary(self, device: Any = None, abbreviated: bool = False) -> str:  # noqa: ARG002
        """PyTorch's own table, without the two pools: it reads `memory_stats`, which is ours."""
        text: str = _SUMMARY(device=self.device_for(device).index, abbreviated=True)
        return text

    def functions(self) -> dict[str, Any]:
        """The functions that `torch.cuda` and `torch.accelerator` have about memory, by name."""
        return {
            "memory_allocated": lambda device=None: self.device_memory(device).used,
            "max_memory_allocated": lambda device=None: self.device_memory(device).peak,
            **dict.fromkeys(
                ("memory_reserved", "memory_cached"), lambda device=None: self.device_memory(device).reserved
            ),
            **dict.fromkeys(
                ("max_memory_reserved", "max_memory_cached"),
                lambda device=None: self.device_memory(device).peak_reserved,
            ),
            **dict.fromkeys(
                ("reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached"),
                lambda device=None: self.device_memory(device).reset_peaks(),
            ),
            "reset_accumulated_memory_stats": lambda device=None: self.device_memory(device).reset_accumulated(),
            "memory_stats": self.stats,
            "memory_summary": self.summary,
            **dict.fromkeys(("mem_get_info", "get_memory_info"), self.info),
            "empty_cache": self.empty_cache,
            "set_per_process_memory_fraction": self.set_fraction,
            "get_per_process_memory_fraction": self.fraction,
        }


_SUMMARY = torch.cuda.memory.memory_summary
