"""`torch.Generator` for a simulated device: a CPU generator whose `device` is the simulated one; default generators."""

from __future__ import annotations

from typing import Any

import torch

from pytest_evalcheck.devices.device_marks import CPU, SimulatedDevice, simulated_device_of
from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.state import ACTIVE, Simulation

_RealGenerator: Any = torch.Generator


class _Meta(type(_RealGenerator)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: Any) -> bool:
        return issubclass(type(instance), _RealGenerator)


_NO_OFFSET = "a simulated device draws as the CPU does, whose generators have none; save and restore the whole state."
_NO_GRAPHS = "there are no graphs; use get_state and set_state."


class Generator(_RealGenerator, metaclass=_Meta):  # type: ignore[misc]
    """Replacement of `torch.Generator` inside a simulation."""

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

    def set_state(self, new_state: Any) -> Any:
        require_host_state(new_state)
        return super().set_state(new_state)

    def get_offset(self) -> int:
        raise CannotSimulate("the offset of random numbers", _NO_OFFSET)

    def set_offset(self, offset: int) -> None:  # noqa: ARG002  (PyTorch's)
        raise CannotSimulate("the offset of random numbers", _NO_OFFSET)

    def graphsafe_get_state(self) -> Any:
        raise CannotSimulate("the state of random numbers of a CUDA graph", _NO_GRAPHS)

    def graphsafe_set_state(self, state: Any) -> None:  # noqa: ARG002  (PyTorch's)
        raise CannotSimulate("the state of random numbers of a CUDA graph", _NO_GRAPHS)

    def clone_state(self) -> Any:
        clone = type(self)(self.device)
        clone.set_state(self.get_state())
        return clone


def _default_generator(device: SimulatedDevice) -> Any:
    """The default generator of a device, with the seed of the CPU's: `torch.manual_seed` seeds all of them."""
    generator = _RealGenerator.__new__(Generator)
    generator._simulated = device
    return generator.manual_seed(torch.initial_seed())


def require_host_state(state: Any) -> None:
    """Raise unless a state is where every generator reads it. ATen/core/Generator.h, check_rng_state."""
    if isinstance(state, torch.Tensor) and simulated_device_of(state) is not None:
        raise TypeError("RNG state must be a torch.ByteTensor")


def install(patches: Patches, simulation: Simulation) -> None:
    """Make the generators of devices. Replace PyTorch's class, and the function for the CPU's generator."""
    for device in simulation.devices.values():
        device.generator = _default_generator(device)
    set_rng_state = torch.random.set_rng_state

    def set_rng_state_checked(new_state: torch.Tensor) -> None:
        require_host_state(new_state)
        set_rng_state(new_state)

    patches.set(torch, "Generator", Generator)
    patches.set(torch.random, "set_rng_state", set_rng_state_checked)
    patches.set(torch, "set_rng_state", set_rng_state_checked)
