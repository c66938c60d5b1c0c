"""`torch.distributed`: code in C++ that creates tensors on a device, waits for one, or needs a real one."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import SimulatedDevice, first_simulated_device, simulated_device_of
from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.patches.threads import run_in_simulation
from pytest_evalcheck.devices.state import ACTIVE, Simulation

_NCCL = (
    'it moves memory between real devices; pass backend="gloo", which takes tensors of simulated devices '
    '(transformers: ddp_backend="gloo"; accelerate: InitProcessGroupKwargs(backend="gloo")).'
)
_SYNC_BATCH_NORM = (
    "its kernels are those of the device alone; evaluate the model with .eval(), or use BatchNorm, "
    "whose statistics are those of one rank."
)


def install(patches: Patches, simulation: Simulation) -> None:
    """Patch what there is in this build of PyTorch."""
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d

    _data_parallel(patches)
    patches.set(distributed_c10d.Work, "wait", _recording_wait(distributed_c10d.Work.wait))
    for name in ("then", "add_done_callback"):  # a callback runs in a thread of the process group
        patches.set(torch._C.Future, name, _run_callback_inside(getattr(torch._C.Future, name)))
    patches.set(distributed_c10d, "_new_process_group_helper", _avoid_nccl(distributed_c10d._new_process_group_helper))
    sync_batch_norm = torch.nn.modules._functions.SyncBatchNorm
    patches.set(sync_batch_norm, "apply", _refuse_on_device(sync_batch_norm.apply))
    if "cuda" in simulation.kinds:
        patches.set_existing(torch._C, _get_accelerator=lambda *_: torch.device(simulation.kinds[0]))


def _data_parallel(patches: Patches) -> None:
    """The reducer of `DistributedDataParallel` creates its buckets in C++: they are where the parameters are."""
    distributed = torch.distributed
    reducer_class, devices = distributed.Reducer, weakref.WeakKeyDictionary[Any, SimulatedDevice]()

    def create_reducer(params: list[Tensor], *args: Any, **kwargs: Any) -> Any:
        device = _one_device(params)
        with _creating_on(device):
            reducer = reducer_class(params, *args, **kwargs)
        if device is not None:
            devices[reducer] = device
        return reducer

    def rebuild_buckets(reducer: Any) -> Any:
        with _creating_on(devices.get(reducer)):
            return rebuild(reducer)

    def verify(process_group: Any, params: list[Tensor], *args: Any, **kwargs: Any) -> Any:
        with _creating_on(_one_device(params)):
            return verify_params(process_group, params, *args, **kwargs)

    def broadcast(process_group: Any, tensors: list[Tensor], *args: Any, **kwargs: Any) -> Any:
        with _creating_on(first_simulated_device(tensors)):
            return broadcast_coalesced(process_group, tensors, *args, **kwargs)

    rebuild = reducer_class._rebuild_buckets
    verify_params, broadcast_coalesced = (
        distributed._verify_params_across_processes,
        distributed._broadcast_coalesced,
    )
    patches.set(reducer_class, "_rebuild_buckets", rebuild_buckets)
    patches.set(distributed, "Reducer", create_reducer)
    patches.set(distributed, "_verify_params_across_processes", verify)
    patches.set(distributed, "_broadcast_coalesced", broadcast)


def _one_device(params: list[Tensor]) -> SimulatedDevice | None:
    found = dict.fromkeys(map(simulated_device_of, params))
    if len(found) > 1:
        names = ", ".join("cpu" if device is None else str(device) for device in found)
        raise CannotSimulate(
            f"DistributedDataParallel of a module on several devices ({names})", "put the whole module on one of them."
        )
    return next(iter(found), None)


@contextmanager
def _creating_on(device: SimulatedDevice | None) -> Iterator[None]:
    """Put on `device` what C++ creates inside with an explicit device, which is the CPU for it."""
    state = ACTIVE.state
    if state is None:
        yield
        return
    before, state.native_device = state.native_device, device
    try:
        yield
    finally:
        state.native_device = before


def _recording_wait(wait: Any) -> Any:
    @functools.wraps(wait)
    def waited(work: Any, *args: Any, **kwargs: Any) -> Any:
        out = wait(work, *args, **kwargs)
        state = ACTIVE.state
        if state is not None and torch._C._current_graph_task_id() == -1:
            device = _device_of_results(work)
            if device is not None:
                by_user = not sys._getframe(1).f_globals.get("__name__", "").startswith("torch.")
                state.ledger.record_sync(device.torch_device, "wait" if by_user else "")
        return out

    return waited


def _device_of_results(work: Any) -> SimulatedDevice | None:
    """Return the device of the results of completed work. Some work has no future: that of several collectives."""
    try:
        results = work.get_future().value()
    except RuntimeError:
        return None
    return first_simulated_device(results)


def _run_callback_inside(method: Any) -> Any:
    @functools.wraps(method)
    def registered(future: Any, callback: Callable[[Any], Any]) -> Any:
        return method(future, callback if ACTIVE.state is None else run_in_simulation(callback))

    return registered


def _avoid_nccl(create_group: Any) -> Any:
    @functools.wraps(create_group)
    def created(*args: Any, **kwargs: Any) -> Any:
        from torch.distributed.distributed_c10d import BackendConfig

        state = ACTIVE.state
        backend = kwargs.get("backend", args[3] if len(args) > 3 else None)
        if state is not None and "cuda" in state.simulation.kinds:
            chosen = BackendConfig(backend).get_device_backend_map()
            if "nccl" in chosen.values():
                raise CannotSimulate("a process group of NCCL", _NCCL)
        return create_group(*args, **kwargs)

    return created


def _refuse_on_device(apply: Any) -> Any:
    def checked(*args: Any) -> Any:
        if first_simulated_device(args) is not None:
            raise CannotSimulate("SyncBatchNorm in training", _SYNC_BATCH_NORM)
        return apply(*args)

    return checked
