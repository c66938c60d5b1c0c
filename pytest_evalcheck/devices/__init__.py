"""Simulated accelerators: real code with real values, on a device that the machine does not have."""

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
