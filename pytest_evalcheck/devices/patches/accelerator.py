"""What `torch.accelerator` returns inside a simulation: it means the first kind of device."""
# ruff: noqa: ARG005  (the parameters are PyTorch's)

from __future__ import annotations

import torch

from pytest_evalcheck.devices.patches.device_functions import device_for_kind, functions_of_any_kind, set_index
from pytest_evalcheck.devices.patches.memory import Memory
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.state import Simulation


def install(patches: Patches, simulation: Simulation) -> None:
    """Patch this module, which newer releases have."""
    if not hasattr(torch, "accelerator"):
        return
    kind = simulation.kinds[0]
    device_for = device_for_kind(simulation, kind)
    patches.set_existing(
        torch.accelerator,
        **{**Memory(simulation, device_for).functions(), **functions_of_any_kind(simulation, device_for)},
        device_count=lambda: simulation.count(kind),
        current_accelerator=lambda check_available=False: torch.device(kind),
        **dict.fromkeys(("current_device_index", "current_device_idx"), lambda: simulation.current[kind]),
        **dict.fromkeys(("set_device_index", "set_device_idx"), lambda device: set_index(simulation, kind, device)),
    )
