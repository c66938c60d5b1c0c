"""Streams and events of a simulated device: one stream, on which all work is done at once."""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import Any

import torch

from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.state import ACTIVE, Simulation

_STREAMS = "the simulated device does everything in order, at once; run this on the device itself."
_REFUSED = {
    "cuda": "Stream ExternalStream CUDAGraph graph StreamContext graph_pool_handle make_graphed_callables",
    "cuda.streams": "Stream ExternalStream",
    "mps": "compile_shader load_metallib",
    "nn.parallel.comm": "broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced scatter",
    "": "Stream",
    "Tensor": "record_stream",
}


def _refused(feature: str) -> Any:
    """A class that raises when it is called: a class, as code may ask `isinstance` of it."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise CannotSimulate(feature, _STREAMS)

    return type(feature.rpartition(".")[2], (), {"__new__": refuse, "__init__": refuse})


@dataclasses.dataclass(frozen=True)
class DefaultStream:
    """The one stream of a simulated device. All work on it is done at once."""

    simulation: Simulation
    device: torch.device
    cuda_stream: int = 0
    stream_id: int = 0

    def __enter__(self) -> DefaultStream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        self.simulation.ledger.record_sync(self.device, "synchronize")

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def wait_stream(self, stream: DefaultStream) -> None:
        pass


class Event:
    """An event on the one stream: it has happened as soon as it is recorded. Time is not simulated."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._simulation = None if ACTIVE.state is None else ACTIVE.state.simulation

    def record(self, stream: Any = None) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        if self._simulation is not None:
            self._simulation.ledger.record_sync(next(iter(self._simulation.devices)), "synchronize")

    def elapsed_time(self, end_event: Any) -> float:  # noqa: ARG002
        raise CannotSimulate(
            "the time between events", "a simulated device has no speed; measure on the device itself."
        )


def install(patches: Patches) -> None:
    """Replace the classes of events, and refuse what a device does out of order."""
    for owner in (torch, torch.cuda, torch.cuda.streams, torch.mps, getattr(torch.mps, "event", torch.mps)):
        patches.set_existing(owner, Event=Event)
    for path, names in _REFUSED.items():
        owner = attrgetter(path)(torch) if path else torch
        full = f"torch.{path}" if path else "torch"
        patches.set_existing(owner, **{name: _refused(f"{full}.{name}") for name in names.split()})
