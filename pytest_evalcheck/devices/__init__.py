"""Simulated accelerators: real code with real values, on a device that the machine does not have.

As a plugin of pytest, `-p pytest_evalcheck.devices --simulate=cuda`, it runs the tests of any project on them. The
public names and the hooks are loaded when they are first used: the package imports neither torch nor pytest, and the
plugin imports torch for `--simulate` only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pytest_evalcheck.errors import missing_attribute

if TYPE_CHECKING:
    from pytest_evalcheck.devices.errors import (
        CannotSimulate,
        SimulationError,
        UnsynchronizedAccess,
        UnsynchronizedAccessWarning,
    )
    from pytest_evalcheck.devices.ledger import Ledger, Race, Site, Sync, Transfer
    from pytest_evalcheck.devices.simulation import simulate

__all__ = [
    "CannotSimulate",
    "Ledger",
    "Race",
    "SimulationError",
    "Site",
    "Sync",
    "Transfer",
    "UnsynchronizedAccess",
    "UnsynchronizedAccessWarning",
    "simulate",
]

_MODULES = {
    "pytest_plugin": ("pytest_addoption", "pytest_configure", "pytest_load_initial_conftests"),
    "errors": ("CannotSimulate", "SimulationError", "UnsynchronizedAccess", "UnsynchronizedAccessWarning"),
    "ledger": ("Ledger", "Race", "Site", "Sync", "Transfer"),
    "simulation": ("simulate",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise missing_attribute(__name__, name, _HOMES)
    found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})  # pytest looks for hooks here
