"""The functions about streams, and what a device does out of order."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import torch

from pytest_evalcheck.devices.device_marks import simulated_device_of
from pytest_evalcheck.devices.patches.bindings import refused_class
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.patches.stream_classes import (
    CudaEvent,
    CudaStream,
    Event,
    MpsEvent,
    Stream,
    queue_of,
    set_current,
    simulation,
)
from pytest_evalcheck.devices.state import Simulation

_IN_ORDER = "the simulated device does everything in order, at once; run this on the device itself."
_EXTERNAL = "there is no stream of another library; make a torch.cuda.Stream()."
_REFUSED = {
    "cuda": "CUDAGraph graph graph_pool_handle make_graphed_callables",
    "mps": "compile_shader load_metallib",
}


def _new(simulated: Any) -> Any:
    """`__new__` of PyTorch's class, for code that has imported it before: it gives an object of ours."""

    def create(cls: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG001
        return simulated(*args, **kwargs)

    return create


def install(patches: Patches) -> None:
    """Replace the classes of streams and events, and refuse what a device does out of order."""
    events = getattr(torch.mps, "event", torch.mps)
    _replace(patches, CudaStream, torch.cuda, torch.cuda.streams, name="Stream")
    _replace(patches, CudaEvent, torch.cuda, torch.cuda.streams, name="Event")
    _replace(patches, MpsEvent, torch.mps, events, name="Event")
    patches.set_existing(torch, Stream=Stream, Event=Event)
    for owner in (torch.cuda, torch.cuda.streams):
        patches.set_existing(owner, ExternalStream=refused_class("torch.cuda.ExternalStream", _EXTERNAL))
    patches.set_existing(torch.cuda, get_stream_from_external=refused_class("torch.cuda.ExternalStream", _EXTERNAL))
    patches.set(torch.Tensor, "record_stream", record_stream)
    for path, names in _REFUSED.items():
        owner = attrgetter(path)(torch)
        patches.set_existing(
            owner, **{name: refused_class(f"torch.{path}.{name}", _IN_ORDER) for name in names.split()}
        )


def _replace(patches: Patches, simulated: Any, *owners: Any, name: str) -> None:
    real = getattr(owners[0], name)
    if "__new__" in vars(real):  # a class that had none refuses arguments after its new one is deleted
        patches.set(real, "__new__", _new(simulated))
    for owner in owners:
        patches.set_existing(owner, **{name: simulated})


def record_stream(tensor: torch.Tensor, s: Any) -> None:
    """`Tensor.record_stream`, whose parser takes no stream of ours."""
    if simulated_device_of(tensor) is None:
        raise NotImplementedError("Could not run 'aten::record_stream' with arguments from the 'CPU' backend.")
    queue, races = queue_of(s), simulation().asynchrony.stream_races
    if races is not None:
        races.record_stream(tensor, queue)


def stream_functions(simulation: Simulation, device_for: Any, kind: str) -> dict[str, Any]:
    """The functions about streams that `torch.cuda` and `torch.accelerator` both have, by name."""
    make: Any = CudaStream if kind == "cuda" else Stream

    def synchronize(device: Any = None) -> None:
        found = device_for(device)
        simulation.order.host_waits_for_device(found)
        simulation.ledger.record_wait(found, "synchronize")

    def set_stream(stream: Any) -> None:
        if stream is not None:
            set_current(stream)

    return {
        "synchronize": synchronize,
        "current_stream": lambda device=None: make._stream_of_queue(simulation.order.current(device_for(device))),
        "default_stream": lambda device=None: make._stream_of_queue(simulation.order.defaults[device_for(device)]),
        "set_stream": set_stream,
    }
