"""`torch.Generator` for a simulated device: a CPU generator whose `device` is the simulated one."""

from __future__ import annotations

from typing import Any

import torch

from pytest_evalcheck.devices.device_marks import CPU, SimulatedDevice
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.state import ACTIVE

_RealGenerator: Any = torch.Generator


class _Meta(type(_RealGenerator)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: Any) -> bool:
        return issubclass(type(instance), _RealGenerator)


class Generator(_RealGenerator, metaclass=_Meta):  # type: ignore[misc]
    """Replaces `torch.Generator` inside a simulation."""

    _simulated: SimulatedDevice

    def __new__(cls, device: Any = CPU) -> Any:
        found = None if ACTIVE.state is None else ACTIVE.state.simulation.find(device)[0]
        if found is None:
            return _RealGenerator(device)
        generator = super().__new__(cls)
        generator._simulated = found
        return generator

    def __init__(self, device: Any = CPU) -> None:
        pass

    @property
    def device(self) -> torch.device:
        return self._simulated.torch_device

    def clone_state(self) -> Any:
        clone = type(self)(self.device)
        clone.set_state(self.get_state())
        return clone


def install(patches: Patches) -> None:
    """Replace PyTorch's class."""
    patches.set(torch, "Generator", Generator)
