"""Results of `torch.cuda` and `torch.backends.cudnn` inside a simulation."""
# ruff: noqa: ARG005  (the parameters are PyTorch's)

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import Any

import torch

from pytest_evalcheck.devices.device_memory import TOTAL_BYTES
from pytest_evalcheck.devices.patches import cuda_tools, sync_debug
from pytest_evalcheck.devices.patches.bindings import refused, refused_class
from pytest_evalcheck.devices.patches.device_functions import (
    NAME,
    device_for_kind,
    functions_of_any_kind,
    generators,
    random_functions,
    set_index,
)
from pytest_evalcheck.devices.patches.memory import Memory
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.state import Simulation

CAPABILITY = (8, 0)
_VERSION, _CUDNN_VERSION = "12.6", 90501
_ALLOCATORS = (
    "CUDAPluggableAllocator MemPool MemPoolContext caching_allocator_alloc caching_allocator_delete "
    "change_current_allocator use_mem_pool"
)
_REFUSED = {
    "cuda": f"{_ALLOCATORS} GreenContext",
    "cuda.memory": _ALLOCATORS,
    "cuda.graphs": "CUDAGraph graph graph_pool_handle make_graphed_callables",
    "cuda.gds": "GdsFile",
    "cuda.tunable": "mgpu_tune_gemm_in_file tune_gemm_in_file",
}
"""Functions for the device or its allocator alone. `bindings` refuses functions in C behind other names."""
_SENSORS = "the driver measures it; run this on the device itself."
_OF_THE_DRIVER = "clock_rate device_memory_used list_gpu_processes memory_usage power_draw temperature"


@dataclasses.dataclass(frozen=True)
class Properties:
    """Result of `torch.cuda.get_device_properties`: an invented card of capability 8.0."""

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


def install(patches: Patches, simulation: Simulation) -> None:
    """Patch these modules. Without a simulated CUDA there is none, even on a machine that has it."""
    if "cuda" in simulation.kinds:
        _cuda(patches, simulation)
    else:
        patches.set(torch.cuda, "is_available", lambda: False)
        patches.set(torch.cuda, "device_count", lambda: 0)
        patches.set(torch.cuda, "_lazy_init", _not_compiled)


def _not_compiled() -> None:
    # That of a build without CUDA, as it is on a Mac; one with CUDA says that there is no driver.
    raise AssertionError("Torch not compiled with CUDA enabled")


def _cuda(patches: Patches, simulation: Simulation) -> None:
    device_for = device_for_kind(simulation, "cuda")
    memory = Memory(simulation, device_for)
    count = simulation.count("cuda")

    def about_device(value: Any, without: Any = None) -> Any:
        """A function of a device that returns `value`, or `without` for a negative index."""

        def value_for(device: Any = None) -> Any:
            if isinstance(device, int) and device < 0:
                return without
            device_for(device)  # raises for an unknown one
            return value

        return value_for

    def exchange_device(index: int) -> int:
        before = simulation.current["cuda"]
        set_index(simulation, "cuda", index)
        return before

    patches.set_existing(
        torch.cuda,
        **functions_of_any_kind(simulation, device_for, "cuda"),
        device_count=lambda: count,
        is_initialized=lambda: True,
        _initialized=True,  # torch.utils.checkpoint reads it before it saves states of random numbers
        init=lambda: None,
        _lazy_init=lambda: None,
        _lazy_call=lambda function, **_: function(),
        current_device=lambda: simulation.current["cuda"],
        set_device=lambda device: set_index(simulation, "cuda", device),
        _exchange_device=exchange_device,
        _maybe_exchange_device=exchange_device,
        is_current_stream_capturing=lambda: False,
        get_device_name=about_device(NAME, ""),
        get_device_properties=about_device(Properties(total_memory=memory.device_memory().total)),
        get_device_capability=about_device(CAPABILITY),
        get_arch_list=lambda: ["sm_80"],
        is_bf16_supported=lambda including_emulation=True: True,
        is_tf32_supported=lambda: True,
        can_device_access_peer=lambda device, peer: device_for(device) != device_for(peer),
        ipc_collect=lambda: None,
        utilization=lambda device=None: 0,
    )
    for path, names in _REFUSED.items():
        package, _, module = path.rpartition(".")
        owner = getattr(attrgetter(package)(torch) if package else torch, module, None)  # an older release lacks some
        patches.set_existing(owner, **{name: refused_class(f"torch.{path}.{name}") for name in names.split()})
    for owner in (torch.cuda, torch.cuda.memory):
        sensors = {name: refused(f"torch.cuda.{name}", _SENSORS) for name in _OF_THE_DRIVER.split()}
        patches.set_existing(owner, **sensors)
    patches.set(torch.cuda, "default_generators", generators(simulation, "cuda"))
    patches.set(torch.version, "cuda", torch.version.cuda or _VERSION)
    patches.set_existing(torch.backends.cudnn, is_available=lambda: True, version=lambda: _CUDNN_VERSION)
    cuda_tools.install(patches, memory.info)
    patches.set_existing(torch.backends.cuda, is_built=lambda: True)
    patches.set_existing(torch.backends.cudnn, is_acceptable=lambda tensor: False)
    patches.set_existing(torch.cuda.graphs, is_current_stream_capturing=lambda: False)
    for owner in (torch.cuda, torch.cuda.memory):
        patches.set_existing(owner, **memory.functions())
    for owner in (torch.cuda, torch.cuda.random):
        patches.set_existing(owner, **random_functions(simulation, device_for, "cuda"))


def functions_in_c(simulation: Simulation) -> dict[str, Any]:
    """Functions in C that the Python code of `torch.cuda` calls."""
    return {
        **sync_debug.SyncDebugMode(simulation).functions(),
        **cuda_tools.tunable(),
        # Of what a module has imported by another name, such as `from torch.cuda import is_available as has_cuda`.
        "_cuda_getDeviceCount": lambda: simulation.count("cuda"),
        "_cuda_isCurrentStreamCapturing": lambda: False,
        "_cuda_getAllocatorBackend": lambda: "native",
        "_cuda_clearCublasWorkspaces": lambda: None,
    }
