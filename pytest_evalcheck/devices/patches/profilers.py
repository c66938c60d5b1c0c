"""Profilers: what happens on the host is recorded as always; times of a simulated device do not exist."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import profiler

from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.patches.bindings import refused
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.state import Simulation

_ADVICE = (
    "a simulated device has no speed; profile the host only (activities=[ProfilerActivity.CPU], without use_cuda and "
    "use_device), or run this on the device itself."
)


def install(patches: Patches, simulation: Simulation) -> None:
    """Refuse to profile a simulated device. `supported_activities` has the host only: a default profile runs."""
    init = profiler.profile.__init__

    def init_on_host(self: Any, *args: Any, **kwargs: Any) -> None:
        wanted = kwargs.get("use_device") or ("cuda" if kwargs.get("use_cuda") else None)
        if wanted in simulation.kinds:
            raise CannotSimulate(f"profiling {wanted}", _ADVICE)
        init(self, *args, **kwargs)

    patches.set(profiler.profile, "__init__", init_on_host)
    patches.set(profiler.emit_nvtx, "__enter__", refused("torch.autograd.profiler.emit_nvtx", _ADVICE))
    host = {torch.profiler.ProfilerActivity.CPU}
    for owner in (torch.autograd, profiler):
        patches.set_existing(owner, _supported_activities=lambda: set(host))
