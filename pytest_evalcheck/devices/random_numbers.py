"""The generators of simulated devices: each draws from its own, as on the device, and not from the CPU's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from pytest_evalcheck.devices.device_marks import SimulatedDevice

_LOCK = threading.RLock()


@contextmanager
def drawn_on(device: SimulatedDevice) -> Iterator[None]:
    """Draw from the generator of a device in this block, which runs operators of the CPU.

    A block that fails has drawn nothing. Another thread that draws on the CPU meanwhile, outside of such a block, draws
    a number of the device, as all threads share the generator of the CPU.
    """
    host = torch.default_generator
    with _LOCK:
        before = host.get_state()
        host.set_state(device.generator.get_state())
        try:
            yield
            device.generator.set_state(host.get_state())
        finally:
            host.set_state(before)
