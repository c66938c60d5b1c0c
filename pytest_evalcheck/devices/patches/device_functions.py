"""Common parts of the modules of several kinds of device: arguments that name a device, and random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

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


def random_functions(simulation: Simulation, device_for: DeviceFor, kind: str) -> dict[str, Any]:
    """The functions about random numbers of a kind of device. Each device has a generator of its own."""

    def generator(device: Any = None) -> Any:
        return simulation.devices[device_for(device)].generator

    def manual_seed_all(seed: int) -> None:
        for each in generators(simulation, kind):
            each.manual_seed(int(seed))

    def set_rng_state(new_state: Any, device: Any = None) -> None:
        generator(device).set_state(new_state)

    def set_rng_state_all(new_states: Any) -> None:
        for index, new_state in enumerate(new_states):
            set_rng_state(new_state, index)

    return {
        "get_rng_state": lambda device=None: generator(device).get_state(),
        "get_rng_state_all": lambda: [each.get_state() for each in generators(simulation, kind)],
        "set_rng_state": set_rng_state,
        "set_rng_state_all": set_rng_state_all,
        "manual_seed": lambda seed: generator().manual_seed(int(seed)) and None,
        "manual_seed_all": manual_seed_all,
        "seed": lambda: generator().seed() and None,
        "seed_all": lambda: manual_seed_all(generator(0).seed()),
        "initial_seed": lambda: generator().initial_seed(),
    }


def generators(simulation: Simulation, kind: str) -> tuple[Any, ...]:
    """The default generators of a kind of device, by index."""
    return tuple(device.generator for device in simulation.devices.values() if device.type == kind)
