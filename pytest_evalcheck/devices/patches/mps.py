"""Results of `torch.mps` and `torch.backends.mps` inside a simulation."""
# ruff: noqa: ARG005  (the parameters are PyTorch's)

from __future__ import annotations

import platform
from typing import Any

import torch

from pytest_evalcheck.devices.patches.device_functions import NAME, device_for_kind, generators, random_functions
from pytest_evalcheck.devices.patches.memory import Memory
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.patches.streams import stream_functions
from pytest_evalcheck.devices.state import Simulation


def install(patches: Patches, simulation: Simulation) -> None:
    """Patch these modules. Without a simulated MPS there is none, even on a machine that has it."""
    available = "mps" in simulation.kinds
    patches.set_existing(
        torch.backends.mps,
        is_available=lambda: available,
        is_built=lambda: available,
    )
    patches.set_existing(torch.mps, is_available=lambda: available, device_count=lambda: int(available))
    if not available:
        return
    patches.set(platform, "processor", lambda: "arm")  # how libraries recognise Apple silicon
    patches.set_existing(
        torch.backends.mps,
        is_macos_or_newer=lambda major, minor: True,
        is_macos13_or_newer=lambda minor=0: True,
        get_name=lambda: NAME,
        get_core_count=lambda: 1,
    )
    device_for = device_for_kind(simulation, "mps")
    memory = Memory(simulation, device_for)
    patches.set_existing(
        torch.mps,
        **random_functions(simulation, device_for, "mps"),
        _get_default_mps_generator=lambda: generators(simulation, "mps")[0],  # PyTorch stores it
        synchronize=stream_functions(simulation, device_for, "mps")["synchronize"],
        empty_cache=memory.empty_cache,
        set_per_process_memory_fraction=lambda fraction: memory.set_fraction(fraction, most=2),
        current_allocated_memory=lambda: memory.device_memory().used,
        driver_allocated_memory=lambda: memory.device_memory().reserved,
        recommended_max_memory=lambda: memory.device_memory().total,
    )


def functions_in_c(simulation: Simulation) -> dict[str, Any]:
    """Functions in C that the Python code of PyTorch calls."""
    return {
        "_mps_is_available": lambda: True,
        "_mps_is_in_bad_fork": lambda: False,
        "_mps_is_on_macos_or_newer": lambda major, minor: True,
        "_mps_get_default_generator": lambda: generators(simulation, "mps")[0],
    }
