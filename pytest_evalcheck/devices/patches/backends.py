"""What `torch.cuda`, `torch.mps`, `torch.backends.mps` and `torch.accelerator` answer inside a simulation."""
# ruff: noqa: ARG001, ARG005  (the parameters are PyTorch's)

from __future__ import annotations

import contextlib
import dataclasses
import platform
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.modes.function_mode import ACTIVE
from pytest_evalcheck.devices.patches.memory import Memory
from pytest_evalcheck.devices.patches.patches import Patches

if TYPE_CHECKING:
    from pytest_evalcheck.devices.simulation import Simulation

NAME = "simulated by pytest-evalcheck"
TOTAL = 16 * 2**30
CAPABILITY = (8, 0)


@dataclasses.dataclass(frozen=True)
class Properties:
    """What `torch.cuda.get_device_properties` gives: a made-up card of capability 8.0 with 16 GiB."""

    name: str = NAME
    major: int = CAPABILITY[0]
    minor: int = CAPABILITY[1]
    total_memory: int = TOTAL
    multi_processor_count: int = 1
    warp_size: int = 32
    max_threads_per_multi_processor: int = 2048
    regs_per_multiprocessor: int = 65536
    shared_memory_per_block: int = 49152
    L2_cache_size: int = 4 * 2**20
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    gcnArchName: str = "sm_80"  # noqa: N815  (PyTorch's name)


def refused(feature: str, advice: str) -> Any:
    """A class, as `isinstance` may be asked of it, that cannot be made or called."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise CannotSimulate(feature, advice)

    return type(feature.rpartition(".")[2], (), {"__new__": refuse, "__init__": refuse})


STREAMS = "the simulated device does everything in order, at once; run this on the device itself."
NO_STREAMS = {
    "torch.cuda": ("Stream ExternalStream CUDAGraph graph StreamContext graph_pool_handle make_graphed_callables"),
    "torch.mps": "compile_shader load_metallib",
    "torch": "Stream",
    "torch.nn.parallel.comm": "broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced scatter",
}


class DefaultStream:
    """The one stream of a simulated device. All that it is given is done at once."""

    cuda_stream = stream_id = 0

    def __init__(self, simulation: Simulation, device: torch.device) -> None:
        self.simulation, self.device = simulation, device

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DefaultStream) and other.device == self.device

    def __hash__(self) -> int:
        return hash(self.device)

    def __enter__(self) -> DefaultStream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        self.simulation.ledger.waited(self.device, "synchronize")

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def wait_stream(self, stream: DefaultStream) -> None:
        pass


class Event:
    """An event on the one stream: it has happened as soon as it is recorded. Time is not simulated."""

    def __init__(self, *_: Any, **__: Any) -> None:
        mode = getattr(ACTIVE, "function", None)
        self._simulation = None if mode is None else mode.simulation

    def record(self, stream: Any = None) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        if self._simulation is not None:
            self._simulation.ledger.waited(next(iter(self._simulation.places)), "synchronize")

    def elapsed_time(self, end_event: Any) -> float:  # noqa: ARG002
        raise CannotSimulate(
            "the time between events", "a simulated device has no speed; measure on the device itself."
        )


def install(patches: Patches, simulation: Simulation) -> None:
    """Patch all of it."""
    for owner_of_events in (torch, torch.cuda, torch.mps, getattr(torch.mps, "event", torch.mps)):
        patches.swap(owner_of_events, "Event", Event)
    for path, names in NO_STREAMS.items():
        owner: Any = torch
        for part in path.split(".")[1:]:
            owner = getattr(owner, part, None)
        for name in names.split():
            if owner is not None:
                patches.swap(owner, name, refused(f"{path}.{name}", STREAMS))
    patches.set(torch.Tensor, "record_stream", refused("torch.Tensor.record_stream", STREAMS))
    _random(patches, simulation)
    if "cuda" in simulation.kinds:
        _cuda(patches, simulation)
    else:
        patches.set(torch.cuda, "is_available", lambda: False)
        patches.set(torch.cuda, "device_count", lambda: 0)
    _mps(patches, simulation)
    _accelerator(patches, simulation)


def _index(simulation: Simulation, kind: str) -> Callable[[Any], int]:
    def index(device: Any = None) -> int:
        if isinstance(device, int):
            return device if device < 0 else int(simulation.checked(torch.device(kind, device)).index)
        found = torch.device(kind if device is None else device)
        if found.type != kind:
            raise ValueError(f"Expected a {kind} device, but got: {found}")
        return simulation.current[kind] if found.index is None else int(simulation.checked(found).index)

    return index


def _synchronise(simulation: Simulation, kind: str) -> Callable[..., None]:
    index = _index(simulation, kind)

    def synchronize(device: Any = None) -> None:
        simulation.ledger.waited(torch.device(kind, index(device)), "synchronize")

    return synchronize


def _stream(simulation: Simulation, kind: str) -> Callable[..., DefaultStream]:
    index = _index(simulation, kind)
    return lambda device=None: DefaultStream(simulation, torch.device(kind, index(device)))


def _cuda(patches: Patches, simulation: Simulation) -> None:
    index, cuda, current = _index(simulation, "cuda"), torch.cuda, simulation.current
    memory = Memory(simulation, "cuda", index)

    def set_device(device: Any) -> None:
        wanted = index(device)
        if wanted >= 0:
            current["cuda"] = wanted

    def exchange(wanted: int) -> int:
        before = current["cuda"]
        if wanted >= 0:
            current["cuda"] = simulation.checked(torch.device("cuda", wanted)).index
        return before

    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: sum(each.type == "cuda" for each in simulation.places),
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "_lazy_call": lambda function, **_: function(),
        "current_device": lambda: current["cuda"],
        "set_device": set_device,
        "_exchange_device": exchange,
        "_maybe_exchange_device": exchange,
        "synchronize": _synchronise(simulation, "cuda"),
        "current_stream": _stream(simulation, "cuda"),
        "default_stream": _stream(simulation, "cuda"),
        "stream": lambda stream: contextlib.nullcontext() if stream is None else stream,
        "set_stream": lambda stream: None,
        "is_current_stream_capturing": lambda: False,
        "get_device_name": lambda device=None: NAME if index(device) >= 0 else "",
        "get_device_properties": lambda device=None: Properties() if index(device) >= 0 else None,
        "get_device_capability": lambda device=None: CAPABILITY if index(device) >= 0 else None,
        "get_arch_list": lambda: ["sm_80"],
        "is_bf16_supported": lambda including_emulation=True: True,
        "is_tf32_supported": lambda: True,
        "can_device_access_peer": lambda device, peer: index(device) != index(peer),
        "ipc_collect": lambda: None,
        "utilization": lambda device=None: 0,
    }
    patches.swap(torch.backends.cudnn, "is_acceptable", lambda tensor: False)
    patches.swap(torch.cuda.graphs, "is_current_stream_capturing", lambda: False)
    for name, answer in {**answers, **memory.answers()}.items():
        patches.swap(cuda, name, answer)
        if name in memory.answers():
            patches.swap(cuda.memory, name, answer)


def _mps(patches: Patches, simulation: Simulation) -> None:
    there = "mps" in simulation.kinds
    patches.set(torch.backends.mps, "is_available", lambda: there)
    patches.set(torch.backends.mps, "is_built", lambda: there)
    patches.swap(torch.backends.mps, "is_macos_or_newer", lambda major, minor: there)
    patches.swap(torch.backends.mps, "is_macos13_or_newer", lambda minor=0: there)
    if there:
        patches.set(platform, "processor", lambda: "arm")  # what libraries take for Apple silicon
    patches.swap(torch.backends.mps, "get_name", lambda: NAME)
    patches.swap(torch.backends.mps, "get_core_count", lambda: 1)
    patches.swap(torch.mps, "is_available", lambda: there)
    patches.swap(torch.mps, "device_count", lambda: int(there))
    if not there:
        return
    memory = Memory(simulation, "mps", _index(simulation, "mps"))
    patches.set(torch.mps, "synchronize", _synchronise(simulation, "mps"))
    patches.set(torch.mps, "empty_cache", lambda: None)
    patches.set(torch.mps, "set_per_process_memory_fraction", lambda fraction: None)
    patches.set(torch.mps, "current_allocated_memory", memory.allocated)
    patches.set(torch.mps, "driver_allocated_memory", memory.allocated)
    patches.swap(torch.mps, "recommended_max_memory", lambda: TOTAL)


def _accelerator(patches: Patches, simulation: Simulation) -> None:
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None:
        return
    kind = simulation.kinds[0]
    index, current = _index(simulation, kind), simulation.current

    def set_index(device: Any) -> None:
        current[kind] = index(device)

    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: sum(each.type == kind for each in simulation.places),
        "current_accelerator": lambda check_available=False: torch.device(kind),
        "current_device_index": lambda: current[kind],
        "current_device_idx": lambda: current[kind],
        "set_device_index": set_index,
        "set_device_idx": set_index,
        "synchronize": _synchronise(simulation, kind),
        "current_stream": _stream(simulation, kind),
        "set_stream": lambda stream: None,
        "empty_cache": lambda: None,
    }
    memory = Memory(simulation, kind, index).answers()
    names = {"max_memory_allocated", "memory_allocated", "max_memory_reserved", "memory_reserved", "memory_stats"}
    for name, answer in {**answers, **{each: memory[each] for each in names}}.items():
        patches.swap(accelerator, name, answer)


def _random(patches: Patches, simulation: Simulation) -> None:
    """One stream of random numbers for all devices: that of the CPU."""
    generator = torch.default_generator

    def state(device: Any = None) -> Any:
        return generator.get_state()

    def set_state(new_state: Any, device: Any = None) -> None:
        generator.set_state(new_state)

    def seed() -> None:
        generator.seed()

    def manual(seed: int) -> None:
        generator.manual_seed(int(seed))

    count = sum(each.type == "cuda" for each in simulation.places)
    every: dict[str, Any] = {
        "get_rng_state": state,
        "set_rng_state": set_state,
        "manual_seed": manual,
        "seed": seed,
        "initial_seed": lambda: generator.initial_seed(),
    }
    of_all: dict[str, Any] = {
        "manual_seed_all": manual,
        "seed_all": seed,
        "get_rng_state_all": lambda: [generator.get_state() for _ in range(count)],
        "set_rng_state_all": lambda states: [generator.set_state(each) for each in states] and None,
    }
    if "cuda" in simulation.kinds:
        for name, answer in {**every, **of_all}.items():
            patches.swap(torch.cuda, name, answer)
            patches.swap(torch.cuda.random, name, answer)
    if "mps" in simulation.kinds:
        for name, answer in every.items():
            patches.swap(torch.mps, name, answer)
