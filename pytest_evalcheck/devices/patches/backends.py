"""Results of PyTorch's modules about devices inside a simulation."""

from __future__ import annotations

from pytest_evalcheck.devices.patches import (
    accelerator,
    bindings,
    cuda,
    legacy_types,
    mps,
    profilers,
    replicas,
    streams,
)
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.state import Simulation


def install(patches: Patches, simulation: Simulation) -> None:
    """Patch the functions of these modules, and what they call in C."""
    functions = accelerator.functions_in_c(simulation)
    if "cuda" in simulation.kinds:
        functions |= cuda.functions_in_c(simulation)
    if "mps" in simulation.kinds:
        functions |= mps.functions_in_c(simulation)
    bindings.install(patches, simulation, **functions)
    streams.install(patches)
    legacy_types.install(patches, simulation)
    profilers.install(patches, simulation)
    for module in (cuda, mps, accelerator):
        module.install(patches, simulation)
    replicas.install(patches)
