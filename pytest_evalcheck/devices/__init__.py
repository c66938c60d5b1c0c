"""Simulated accelerators: real code with real values, on a device that the machine does not have."""

from pytest_evalcheck.devices.errors import CannotSimulate, SimulationError
from pytest_evalcheck.devices.ledger import Ledger, Sync, Transfer
from pytest_evalcheck.devices.simulation import simulate

__all__ = ["CannotSimulate", "Ledger", "SimulationError", "Sync", "Transfer", "simulate"]
