"""Functions of `torch.accelerator` inside a simulation: it means the first kind of device."""
# ruff: noqa: ARG005  (the parameters are PyTorch's)

from __future__ import annotations

import functools
from typing import Any

import torch

from pytest_evalcheck.devices.patches.bindings import refused_class
from pytest_evalcheck.devices.patches.device_functions import device_for_kind, functions_of_any_kind, set_index
from pytest_evalcheck.devices.patches.memory import Memory
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.state import Simulation


def install(patches: Patches, simulation: Simulation) -> None:
    """Patch this module, which newer releases have."""
    if not hasattr(torch, "accelerator"):
        return
    for owner in (torch.accelerator, getattr(torch.accelerator, "graphs", torch.accelerator)):
        patches.set_existing(owner, Graph=refused_class("torch.accelerator.Graph"))
    kind = simulation.kinds[0]
    device_for = device_for_kind(simulation, kind)
    memory = Memory(simulation, device_for).functions()
    for owner in (torch.accelerator, getattr(torch.accelerator, "memory", torch.accelerator)):
        patches.set_existing(owner, **memory, empty_host_cache=lambda: None)
    patches.set_existing(
        torch.accelerator,
        **functions_of_any_kind(simulation, device_for, ""),
        device_count=lambda: simulation.count(kind),
        current_accelerator=lambda check_available=False: torch.device(kind),
        **dict.fromkeys(("current_device_index", "current_device_idx"), lambda: simulation.current[kind]),
        **dict.fromkeys(("set_device_index", "set_device_idx"), lambda device: set_index(simulation, kind, device)),
    )


@functools.cache
def _all_dtypes() -> frozenset[torch.dtype]:
    return frozenset(value for value in vars(torch).values() if isinstance(value, torch.dtype))


def functions_in_c(simulation: Simulation) -> dict[str, Any]:
    """Functions in C that the Python code of PyTorch calls, which are more than this module."""
    kind = simulation.kinds[0]

    def exchange(index: int) -> int:
        before = simulation.current[kind]
        set_index(simulation, kind, index)
        return before

    dtypes = _all_dtypes() - next(iter(simulation.devices.values())).unsupported_dtypes.keys()
    found: dict[str, Any] = {
        "_get_accelerator": lambda check=None: torch.device(kind),
        "_accelerator_getAccelerator": lambda: torch.device(kind),
        "_accelerator_getDeviceCapability": lambda index: {"supported_dtypes": set(dtypes)},
        "_accelerator_isAllocatorInitialized": lambda: True,
        "_accelerator_emptyCache": lambda: None,
        "_accelerator_hooks_device_count": lambda: simulation.count(kind),
    }
    for functions, names in (
        (exchange, "exchangeDevice maybeExchangeDevice hooks_exchange_device hooks_maybe_exchange_device"),
        (lambda: simulation.current[kind], "getDeviceIndex hooks_get_current_device"),
        (lambda index: set_index(simulation, kind, index), "setDeviceIndex hooks_set_current_device"),
    ):
        found |= {f"_accelerator_{name}": functions for name in names.split()}
    return found
