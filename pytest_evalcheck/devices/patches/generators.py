"""`torch.Generator` for a device that is not there: a CPU generator that says where it is."""

from __future__ import annotations

from typing import Any

import torch

from pytest_evalcheck.devices.device_marks import CPU, SimulatedDevice
from pytest_evalcheck.devices.modes.function_mode import ACTIVE, SimulationFunctionMode
from pytest_evalcheck.devices.patches.patches import Patches

_Real: Any = torch.Generator


class _Meta(type(_Real)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: Any) -> bool:
        return issubclass(type(instance), _Real)


class Generator(_Real, metaclass=_Meta):  # type: ignore[misc]
    """Stands for `torch.Generator` inside a simulation."""

    place: SimulatedDevice | None

    def __new__(cls, device: Any = CPU) -> Any:
        mode: SimulationFunctionMode | None = getattr(ACTIVE, "function", None)
        if mode is None:
            return _Real(device)
        place, ours = mode.simulation.find(device)
        if not ours or place is None:
            return _Real(device)
        made = super().__new__(cls)
        made.place = place
        return made

    def __init__(self, device: Any = CPU) -> None:
        pass

    @property
    def device(self) -> torch.device:
        return CPU if self.place is None else self.place.device

    def clone_state(self) -> Any:
        made = type(self)(self.device)
        made.set_state(self.get_state())
        return made


def install(patches: Patches) -> None:
    """Put it in the place of PyTorch's."""
    patches.set(torch, "Generator", Generator)


def check(generator: Any, place: SimulatedDevice | None) -> None:
    """A generator draws for tensors of its own kind of device. aten/src/ATen/core/Generator.h, check_generator."""
    here = getattr(generator, "place", None)
    found, expected = ("cpu" if each is None else each.type for each in (here, place))
    if found != expected:
        raise RuntimeError(f"Expected a '{expected}' device type for generator but found '{found}'")
