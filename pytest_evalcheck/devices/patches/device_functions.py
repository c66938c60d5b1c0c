"""Common parts of the modules of several kinds of device: arguments that name a device, and random numbers."""
# ruff: noqa: ARG001, ARG005  (the parameters are PyTorch's)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from pytest_evalcheck.devices.patches.generators import require_host_state
from pytest_evalcheck.devices.patches.streams import stream_functions
from pytest_evalcheck.devices.state import Simulation

NAME = "simulated by pytest-evalcheck"
DeviceFor = Callable[[Any], torch.device]


def device_for_kind(simulation: Simulation, kind: str) -> DeviceFor:
    """Return the device of one kind that an argument means: an index, a name, or None for the current one."""

    def device_for(device: Any = None) -> torch.device:
        if isinstance(device, torch.cuda.device):
            device = device.idx
        by_index = device is None or isinstance(device, int)
        found = torch.device(kind, device) if by_index else torch.device(device)
        if found.type != kind:
            raise ValueError(f"Expected a {kind} device, but got: {found}")
        return torch.device(kind, simulation.index_of(found))

    return device_for


def set_index(simulation: Simulation, kind: str, device: Any) -> None:
    """Change the current device. A negative index changes nothing, as in PyTorch."""
    if not (isinstance(device, int) and device < 0):
        simulation.current[kind] = int(device_for_kind(simulation, kind)(device).index)


def functions_of_any_kind(simulation: Simulation, device_for: DeviceFor, kind: str) -> dict[str, Any]:
    """The functions that `torch.cuda` and `torch.accelerator` both have."""
    return {
        "is_available": lambda: True,
        **stream_functions(simulation, device_for, kind),
    }


def random_functions() -> dict[str, Any]:
    """One stream of random numbers for all devices: that of the CPU."""
    generator = torch.default_generator

    def set_rng_state(new_state: Any, device: Any = None) -> None:
        require_host_state(new_state)
        generator.set_state(new_state)

    def manual_seed(seed: int) -> None:
        generator.manual_seed(int(seed))

    def seed() -> None:
        generator.seed()

    return {
        "get_rng_state": lambda device=None: generator.get_state(),
        "set_rng_state": set_rng_state,
        "manual_seed": manual_seed,
        "seed": seed,
        "initial_seed": lambda: generator.initial_seed(),
    }
