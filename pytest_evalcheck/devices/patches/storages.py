"""Storages say where they are, and copies of them are made there: what saving, loading, copying and pickling use."""
# ruff: noqa: ARG005  (the parameters are PyTorch's)

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
import torch.multiprocessing  # registers how tensors are sent
from torch import UntypedStorage as Storage

from pytest_evalcheck.devices.device_marks import CPU, MARK, SimulatedDevice, device_of, simulated_device_of
from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.modes.function_mode import ACTIVE, SimulationFunctionMode
from pytest_evalcheck.devices.patches.patches import Patches

_REAL_DEVICE = torch._C.StorageBase.device


def install(patches: Patches) -> None:
    """Patch the storage class and the pickler that sends tensors to other processes."""
    patches.set(Storage, "device", property(_device))
    patches.set(Storage, "to", _to)
    patches.set(Storage, "cuda", lambda storage, device=None, non_blocking=False: _to(storage, device=_cuda(device)))
    patches.set(Storage, "mps", lambda storage: _to(storage, device=torch.device("mps")))
    patches.set(Storage, "cpu", lambda storage: _to(storage, device=CPU))
    patches.set(Storage, "clone", lambda storage: _copied(storage, getattr(storage, MARK, None)))
    reducers = dict(vars(ForkingPickler)["_extra_reducers"])
    for kind in (torch.Tensor, torch.nn.Parameter):
        if kind in reducers:
            reducers[kind] = _unsendable(reducers[kind])
    patches.set(ForkingPickler, "_extra_reducers", reducers)


def _device(storage: Storage) -> torch.device:
    place = getattr(storage, MARK, None)
    return _REAL_DEVICE.__get__(storage) if place is None else place.device


def _cuda(device: Any) -> torch.device:
    if device is None:
        return torch.device("cuda")
    return torch.device("cuda", device) if isinstance(device, int) else torch.device(device)


def _copied(storage: Storage, place: SimulatedDevice | None) -> Storage:
    if _REAL_DEVICE.__get__(storage).type != "cpu":
        return Storage(storage.nbytes(), device=_REAL_DEVICE.__get__(storage)).copy_(storage, False)
    with _without_modes():
        fresh = Storage(storage.nbytes()).copy_(storage, False)  # whether it crosses is for the caller to say
    if place is not None:
        setattr(fresh, MARK, place)
    return fresh


@contextmanager
def _without_modes() -> Iterator[None]:
    off = torch._C._DisableTorchDispatch()  # from when it is made until it is gone
    try:
        with torch._C.DisableTorchFunction():
            yield
    finally:
        del off


def _to(storage: Storage, *, device: Any, non_blocking: bool = False) -> Storage:
    mode: SimulationFunctionMode | None = getattr(ACTIVE, "function", None)
    if mode is None:
        raise CannotSimulate("a move in this thread", "it does not belong to the simulation that is open.")
    place, ours = mode.simulation.find(device)
    if not ours:
        return torch._utils._to(storage, torch.device(device), non_blocking)
    here = getattr(storage, MARK, None)
    if here is place:
        return storage
    fresh = _copied(storage, place)
    if storage.nbytes():
        with _without_modes():
            sample = torch.empty(0, dtype=torch.uint8).set_(fresh)
            mode.record_transfer(sample, here, place, waits=place is None)
    return fresh


def _unsendable(reduce: Any) -> Any:
    def reduced(tensor: torch.Tensor) -> Any:
        if simulated_device_of(tensor) is not None:
            raise CannotSimulate(
                f"sending a tensor on {device_of(tensor)} to another process",
                "the other process has no such device; send .cpu() of it.",
            )
        return reduce(tensor)

    return reduced
