"""Tensors brought from device to device, each at most once."""

from __future__ import annotations

import weakref
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pytest_evalcheck.fixes.devices.containers import Reads, replaced

CPU = torch.device("cpu")


class _Copy(NamedTuple):
    source: weakref.ref[Tensor]
    versions: tuple[int | None, ...]
    tensor: Tensor


class TransferCache:
    """What was brought where: asked for the same tensor and the same device again, it gives the same copy.

    It belongs to one batch. A copy is given up when its tensor is, and not used once either of them was written
    to; only writes into inference tensors, of which torch keeps no count, go unseen. Two tensors that share memory
    are two tensors. Copied or pickled, it is empty.
    """

    def __init__(self) -> None:
        self._copies: dict[tuple[int, torch.device], _Copy] = {}

    def to_device(
        self, value: Any, device: torch.device | str | int, *, reads: Reads = None, where: str = "value"
    ) -> Any:
        """Return a tensor, or a container with all its tensors, on a device (EC601, EC602).

        Containers may be mappings, dataclasses, frozen or not, named tuples, tuples and lists, in any nesting; each
        keeps its type, its order and its other content, and is itself left as it was. Where nothing has to move the
        same object comes back. Anything else is left alone, ``to`` method or not. ``reads`` names the fields that
        are needed of whatever has named fields: the others stay where they are.

        Copies wait for the device, as asynchronous ones to the CPU may be read too early. TypeError for a dtype that
        the device lacks, and for a container that cannot be made of its content; ``where`` begins the path in
        the text.
        """
        place = resolve_device(device)
        return replaced(value, lambda tensor, path: self._brought(tensor, place, path), where, reads)

    def load(self, value: Any, device: torch.device | str | int, *, where: str = "batch") -> Any:
        """Do what `to_device` does, for a batch on its way to the model, and `record_copy` where each tensor came from.

        What is brought back there afterwards does not cross: it is the tensor that the batch was loaded with.
        """
        place, done = resolve_device(device), dict[int, Tensor]()

        def loaded(tensor: Tensor, path: str) -> Tensor:
            if tensor.device == place:
                return tensor
            if id(tensor) not in done:
                done[id(tensor)] = _sent(tensor, place, path)
                self.record_copy(done[id(tensor)], tensor)
            return done[id(tensor)]

        return replaced(value, loaded, where)

    def record_copy(self, tensor: Tensor, original: Tensor) -> None:
        """Take note that a tensor is a copy of one elsewhere: brought there, it is the original and nothing crosses."""
        key = (id(tensor), original.device)
        copies = self._copies  # not self, which a weak reference would keep alive
        source = weakref.ref(tensor, lambda _: copies.pop(key, None))
        copies[key] = _Copy(source, _versions(tensor, original), original)

    def __deepcopy__(self, memo: dict[int, Any]) -> TransferCache:
        return TransferCache()

    def __reduce__(self) -> tuple[type[TransferCache], tuple[()]]:
        return TransferCache, ()

    def _brought(self, tensor: Tensor, place: torch.device, where: str) -> Tensor:
        if tensor.device == place:
            return tensor
        known = self._copies.get((id(tensor), place))
        if known is not None and known.source() is tensor and known.versions == _versions(tensor, known.tensor):
            return known.tensor
        copy = _sent(tensor, place, where)
        self.record_copy(tensor, copy)
        return copy


def resolve_device(device: torch.device | str | int) -> torch.device:
    """Return the device that tensors say they are on: "mps" is mps:0, "cuda" is the current one."""
    found = torch.device(device)
    return found if found.index is not None or found.type in ("cpu", "meta") else torch.empty(0, device=found).device


def supports_dtype(device: torch.device, dtype: torch.dtype) -> bool:
    """Tell whether a device has tensors of this dtype; MPS, for one, has none of float64."""
    return device.type in ("cpu", "meta") or _holds(device.type, dtype)


@cache
def _holds(kind: str, dtype: torch.dtype) -> bool:
    try:
        torch.empty(0, dtype=dtype, device=kind)
    except (TypeError, RuntimeError):
        return False
    return True


def _sent(tensor: Tensor, place: torch.device, where: str) -> Tensor:
    if not supports_dtype(place, tensor.dtype):
        raise TypeError(
            f"{where}: {tensor.dtype} does not exist on {place}, where it has to go; give a dtype that does, "
            "or let the metric come to it with DevicePolicy('outputs') or DevicePolicy('cpu')"
        )
    return tensor.to(place)


def _versions(*pair: Tensor) -> tuple[int | None, ...]:
    return tuple(None if each.is_inference() else each._version for each in pair)
