"""What `torch.cuda`, `torch.mps`, `torch.backends.mps` and `torch.accelerator` return inside a simulation."""
# ruff: noqa: ARG001, ARG005  (the parameters are PyTorch's)

from __future__ import annotations

import contextlib
import dataclasses
import platform
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import torch

from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.patches.memory import TOTAL_BYTES, Memory
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.state import ACTIVE, Simulation

NAME = "simulated by pytest-evalcheck"
CAPABILITY = (8, 0)
DeviceFor = Callable[[Any], torch.device]


@dataclasses.dataclass(frozen=True)
class Properties:
    """What `torch.cuda.get_device_properties` returns: an invented card of capability 8.0 with 16 GiB."""

    name: str = NAME
    major: int = CAPABILITY[0]
    minor: int = CAPABILITY[1]
    total_memory: int = TOTAL_BYTES
    multi_processor_count: int = 1
    warp_size: int = 32
    max_threads_per_multi_processor: int = 2048
    regs_per_multiprocessor: int = 65536
    shared_memory_per_block: int = 49152
    L2_cache_size: int = 4 * 2**20
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    gcnArchName: str = "sm_80"  # noqa: N815  (PyTorch's name)


_STREAMS = "the simulated device does everything in order, at once; run this on the device itself."
_REFUSED = {
    "cuda": "Stream ExternalStream CUDAGraph graph StreamContext graph_pool_handle make_graphed_callables",
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


def install(patches: Patches, simulation: Simulation) -> None:
    """Patch the functions of these modules."""
    for owner in (torch, torch.cuda, torch.mps, getattr(torch.mps, "event", torch.mps)):
        patches.set_existing(owner, Event=Event)
    for path, names in _REFUSED.items():
        owner = attrgetter(path)(torch) if path else torch
        full = f"torch.{path}" if path else "torch"
        patches.set_existing(owner, **{name: _refused(f"{full}.{name}") for name in names.split()})
    if "cuda" in simulation.kinds:
        _cuda(patches, simulation)
    else:
        patches.set(torch.cuda, "is_available", lambda: False)
        patches.set(torch.cuda, "device_count", lambda: 0)
    _mps(patches, simulation)
    if hasattr(torch, "accelerator"):
        _accelerator(patches, simulation)


def _device_for(simulation: Simulation, kind: str) -> DeviceFor:
    """What PyTorch's functions take for a device, of one kind: an index, a name, or None for the current one."""

    def device_for(device: Any = None) -> torch.device:
        by_index = device is None or isinstance(device, int)
        found = torch.device(kind, device) if by_index else torch.device(device)
        if found.type != kind:
            raise ValueError(f"Expected a {kind} device, but got: {found}")
        return torch.device(kind, simulation.index_of(found))

    return device_for


def _set_index(simulation: Simulation, kind: str, device: Any) -> None:
    """Change the current device. A negative index changes nothing, as in PyTorch."""
    if not (isinstance(device, int) and device < 0):
        simulation.current[kind] = int(_device_for(simulation, kind)(device).index)


def _of_any_kind(simulation: Simulation, device_for: DeviceFor) -> dict[str, Any]:
    """The functions that `torch.cuda` and `torch.accelerator` both have."""

    def stream(device: Any = None) -> DefaultStream:
        return DefaultStream(simulation, device_for(device))

    return {
        "is_available": lambda: True,
        "synchronize": lambda device=None: stream(device).synchronize(),
        "current_stream": stream,
        "default_stream": stream,
        "set_stream": lambda stream: None,
        "empty_cache": lambda: None,
    }


def _cuda(patches: Patches, simulation: Simulation) -> None:
    device_for = _device_for(simulation, "cuda")
    memory = Memory(simulation, device_for).functions()
    count, generator = simulation.count("cuda"), torch.default_generator

    def about_device(value: Any, without: Any = None) -> Any:
        """A function of a device that returns `value`, or `without` for a negative index."""

        def about(device: Any = None) -> Any:
            if isinstance(device, int) and device < 0:
                return without
            device_for(device)  # raises for an unknown one
            return value

        return about

    def exchange_device(index: int) -> int:
        before = simulation.current["cuda"]
        _set_index(simulation, "cuda", index)
        return before

    def set_rng_state_all(new_states: Any) -> None:
        for new_state in new_states:
            generator.set_state(new_state)

    patches.set_existing(
        torch.cuda,
        **_of_any_kind(simulation, device_for),
        device_count=lambda: count,
        is_initialized=lambda: True,
        init=lambda: None,
        _lazy_init=lambda: None,
        _lazy_call=lambda function, **_: function(),
        current_device=lambda: simulation.current["cuda"],
        set_device=lambda device: _set_index(simulation, "cuda", device),
        _exchange_device=exchange_device,
        _maybe_exchange_device=exchange_device,
        stream=lambda stream: contextlib.nullcontext() if stream is None else stream,
        is_current_stream_capturing=lambda: False,
        get_device_name=about_device(NAME, ""),
        get_device_properties=about_device(Properties()),
        get_device_capability=about_device(CAPABILITY),
        get_arch_list=lambda: ["sm_80"],
        is_bf16_supported=lambda including_emulation=True: True,
        is_tf32_supported=lambda: True,
        can_device_access_peer=lambda device, peer: device_for(device) != device_for(peer),
        ipc_collect=lambda: None,
        utilization=lambda device=None: 0,
    )
    patches.set_existing(torch.backends.cudnn, is_acceptable=lambda tensor: False)
    patches.set_existing(torch.cuda.graphs, is_current_stream_capturing=lambda: False)
    for owner in (torch.cuda, torch.cuda.memory):
        patches.set_existing(owner, **memory)
    random = _random()
    for owner in (torch.cuda, torch.cuda.random):
        patches.set_existing(
            owner,
            **random,
            manual_seed_all=random["manual_seed"],
            seed_all=random["seed"],
            get_rng_state_all=lambda: [generator.get_state() for _ in range(count)],
            set_rng_state_all=set_rng_state_all,
        )


def _mps(patches: Patches, simulation: Simulation) -> None:
    available = "mps" in simulation.kinds
    patches.set_existing(
        torch.backends.mps,
        is_available=lambda: available,
        is_built=lambda: available,
        is_macos_or_newer=lambda major, minor: available,
        is_macos13_or_newer=lambda minor=0: available,
        get_name=lambda: NAME,
        get_core_count=lambda: 1,
    )
    patches.set_existing(torch.mps, is_available=lambda: available, device_count=lambda: int(available))
    if not available:
        return
    patches.set(platform, "processor", lambda: "arm")  # how libraries recognise Apple silicon
    device_for = _device_for(simulation, "mps")
    memory = Memory(simulation, device_for)
    patches.set_existing(
        torch.mps,
        **_random(),
        synchronize=lambda: simulation.ledger.record_sync(device_for(None), "synchronize"),
        empty_cache=lambda: None,
        set_per_process_memory_fraction=lambda fraction: None,
        current_allocated_memory=memory.allocated,
        driver_allocated_memory=memory.allocated,
        recommended_max_memory=lambda: TOTAL_BYTES,
    )


def _accelerator(patches: Patches, simulation: Simulation) -> None:
    kind = simulation.kinds[0]
    device_for = _device_for(simulation, kind)
    patches.set_existing(
        torch.accelerator,
        **{**Memory(simulation, device_for).functions(), **_of_any_kind(simulation, device_for)},
        device_count=lambda: simulation.count(kind),
        current_accelerator=lambda check_available=False: torch.device(kind),
        **dict.fromkeys(("current_device_index", "current_device_idx"), lambda: simulation.current[kind]),
        **dict.fromkeys(("set_device_index", "set_device_idx"), lambda device: _set_index(simulation, kind, device)),
    )


def _random() -> dict[str, Any]:
    """One stream of random numbers for all devices: that of the CPU."""
    generator = torch.default_generator

    def set_rng_state(new_state: Any, device: Any = None) -> None:
        generator.set_state(new_state)

    def manual_seed(seed: int) -> None:
        generator.manual_seed(int(seed))

    def seed() -> None:
        generator.seed()

    return {
        "get_rng_state": lambda device=None: generator.get_state(),
        "set_rng_state": set_rng_state,
        "manual_seed": manual_seed,
        "seed": seed,
        "initial_seed": lambda: generator.initial_seed(),
    }
