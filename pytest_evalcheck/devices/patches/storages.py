"""Storages report their simulated device, and are copied to it: for saving, loading, copying and pickling."""

from __future__ import annotations

from contextlib import nullcontext
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
import torch.multiprocessing  # registers how tensors are sent
from torch import UntypedStorage as Storage

from pytest_evalcheck.devices.device_marks import (
    CPU,
    MARK,
    SimulatedDevice,
    device_of,
    is_wrapper,
    mark_storage,
    recount,
    simulated_device_of,
)
from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.memory_regions import without_modes
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.release import TORCH_RELEASE
from pytest_evalcheck.devices.state import ACTIVE

_REAL_DEVICE, _REAL_COPY = torch._C.StorageBase.device, torch._C.StorageBase.copy_
_REAL_RESIZE = torch._C.StorageBase.resize_


def install(patches: Patches) -> None:
    """Patch the storage class and the pickler that sends tensors to other processes."""
    patches.set(Storage, "device", property(_device))
    patches.set(Storage, "to", _move)
    patches.set(Storage, "cuda", lambda storage, device=None, non_blocking=False: _move(storage, device=_cuda(device)))  # noqa: ARG005  (PyTorch's)
    patches.set(Storage, "mps", lambda storage: _move(storage, device="mps"))
    patches.set(Storage, "cpu", lambda storage: _move(storage, device=CPU))
    patches.set(Storage, "resize_", _resize)
    patches.set(Storage, "_share_cuda_", _share_cuda)
    patches.set(Storage, "copy_", _copy_into)
    patches.set(Storage, "clone", lambda storage: _copy(storage, getattr(storage, MARK, None)))
    patches.set(torch.Tensor, "_reduce_ex_internal", _report_read(torch.Tensor._reduce_ex_internal))
    if TORCH_RELEASE < (2, 5):
        patches.set(torch.Tensor, "as_subclass", _unseen(torch.Tensor.as_subclass))
    for owner in (torch, torch._C, torch.utils.dlpack):
        for name in ("to_dlpack", "_to_dlpack", "_to_dlpack_versioned"):
            if hasattr(owner, name):
                patches.set(owner, name, _refuse_to_hand_over(getattr(owner, name)))
    reducers = dict(vars(ForkingPickler)["_extra_reducers"])
    for kind in {torch.Tensor, torch.nn.Parameter} & reducers.keys():
        reducers[kind] = _refuse_on_device(reducers[kind])
    patches.set(ForkingPickler, "_extra_reducers", reducers)


def _unseen(as_subclass: Any) -> Any:
    """The view that it makes must be seen by no mode: what a mode has returned cannot change its class."""

    def without_dispatch(tensor: torch.Tensor, cls: Any) -> Any:
        with nullcontext() if is_wrapper(tensor) else torch._C._DisableTorchDispatch():
            return as_subclass(tensor, cls)

    return without_dispatch


def _report_read(reduce: Any) -> Any:
    """Pickling and saving read the memory of a tensor without an operator."""

    def checked(tensor: torch.Tensor, *args: Any) -> Any:
        if ACTIVE.state is not None:
            ACTIVE.state.record_read_of_host(tensor)
        return reduce(tensor, *args)

    return checked


def _device(storage: Storage) -> torch.device:
    device = getattr(storage, MARK, None)
    return _REAL_DEVICE.__get__(storage) if device is None else device.torch_device


def _resize(storage: Storage, size: int) -> Storage:
    before = storage.nbytes()
    _REAL_RESIZE(storage, size)
    try:
        recount(storage)
    except RuntimeError:
        _REAL_RESIZE(storage, before)
        raise
    return storage


def _share_cuda(storage: Storage, *_: Any, **__: Any) -> Any:
    """A handle for another process: torch/csrc/StorageSharing.cpp."""
    if _device(storage).type != "cuda":
        raise RuntimeError("_share_cuda_: only available on CUDA")
    raise CannotSimulate(
        "sending memory of a device to another process", "it has no such device; send a copy on the CPU."
    )


def _cuda(device: Any) -> torch.device:
    return torch.device("cuda", device) if device is None or isinstance(device, int) else torch.device(device)


def _copy(storage: Storage, device: SimulatedDevice | None) -> Storage:
    if _REAL_DEVICE.__get__(storage).type != "cpu":
        return Storage(storage.nbytes(), device=_REAL_DEVICE.__get__(storage)).copy_(storage, False)
    with without_modes():  # the caller records whether this is a transfer
        copy = Storage(storage.nbytes())
        _REAL_COPY(copy, storage, False)
    if device is not None:
        mark_storage(copy, device)
    return copy


def _copy_into(storage: Storage, source: Storage, non_blocking: bool = False) -> Storage:
    with without_modes():
        _REAL_COPY(storage, source, non_blocking)
    state = ACTIVE.state
    target_device, source_device = getattr(storage, MARK, None), getattr(source, MARK, None)
    if state is not None and target_device is not source_device:
        with without_modes():
            sample = torch.empty(0, dtype=torch.uint8).set_(storage)
        state.record_transfer(sample, source_device, target_device, waits=target_device is None and not non_blocking)
    return storage


def _move(storage: Storage, *, device: Any, non_blocking: bool = False) -> Storage:
    state = ACTIVE.state
    if state is None:
        raise CannotSimulate("a move in this thread", "it does not belong to the simulation that is open.")
    target, ours = state.simulation.find(device)
    if _REAL_DEVICE.__get__(storage).type != "cpu":
        return Storage(storage.nbytes()).copy_(storage, non_blocking)  # raises for one without memory
    if not ours:
        return torch._utils._to(storage, torch.device(device), non_blocking)
    source = getattr(storage, MARK, None)
    if source is target:
        return storage
    copy = _copy(storage, target)
    if storage.nbytes():
        with without_modes():
            sample = torch.empty(0, dtype=torch.uint8).set_(copy)
            state.record_transfer(sample, source, target, waits=target is None)
    return copy


def _refuse_to_hand_over(export: Any) -> Any:
    def checked(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if simulated_device_of(tensor) is not None:
            raise CannotSimulate(
                f"handing memory of {device_of(tensor)} to another library",
                "there is none; hand over .cpu() of the tensor.",
            )
        return export(tensor, *args, **kwargs)

    return checked


def _refuse_on_device(reduce: Any) -> Any:
    def checked(tensor: torch.Tensor) -> Any:
        if simulated_device_of(tensor) is not None:
            raise CannotSimulate(
                f"sending a tensor on {device_of(tensor)} to another process",
                "the other process has no such device; send .cpu() of it.",
            )
        if ACTIVE.state is not None:
            ACTIVE.state.record_read_of_host(tensor)
        return reduce(tensor)

    return checked
