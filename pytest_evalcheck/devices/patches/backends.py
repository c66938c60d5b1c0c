"""What the modules of PyTorch about devices return inside a simulation."""

from __future__ import annotations

from pytest_evalcheck.devices.patches import accelerator, cuda, mps, streams
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.state import Simulation


def install(patches: Patches, simulation: Simulation) -> None:
    """Patch the functions of these modules."""
    streams.install(patches)
    for module in (cuda, mps, accelerator):
        module.install(patches, simulation)
