"""Marks that survive garbage collection, for releases of PyTorch in which attributes of a storage do not.

There, the Python object of a storage that was part of a cycle loses its attributes (saving a model is enough). A weak
reference to the storage prevents its address from being used again, so that the address can be the key of a table.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterable
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from pytest_evalcheck.devices.device_marks import ALLOCATION, MARK, PINNED
from pytest_evalcheck.devices.device_memory import DeviceMemory


class _TableAttribute:
    """A data descriptor for storages that stores its values in a table of its own."""

    def __init__(self) -> None:
        self.table: dict[int, tuple[StorageWeakRef, Any]] = {}
        self.limit = 1000

    def __get__(self, storage: Any, owner: Any = None) -> Any:
        if storage is None:
            return self
        entry = self.table.get(storage._cdata)
        return None if entry is None else entry[1]

    def __set__(self, storage: Any, value: Any) -> None:
        self.table[storage._cdata] = StorageWeakRef(storage), value
        if len(self.table) > self.limit:
            self.collect()

    def collect(self) -> None:
        """Drop the values of storages that are gone."""
        self.table = {key: entry for key, entry in self.table.items() if not entry[0].expired()}
        self.limit = 1000 + 2 * len(self.table)


@functools.cache
def attributes_persist() -> bool:
    """Return whether this release keeps the attributes of a storage that was part of a garbage cycle."""
    tensor = torch.empty(1, device="cpu")
    storage = tensor.untyped_storage()
    storage._evalcheck_probe = True
    cycle: list[Any] = [storage]
    cycle.append(cycle)
    del storage, cycle
    gc.collect(0)
    return hasattr(tensor.untyped_storage(), "_evalcheck_probe")


def install(memories: Iterable[DeviceMemory]) -> None:
    """Once, for the whole process: tensors keep their marks after a simulation.

    What storages that are gone had in memory is noticed when the table is gone through: before a new peak, too.
    """
    if not isinstance(vars(torch.UntypedStorage).get(MARK), _TableAttribute) and not attributes_persist():
        for name in (MARK, PINNED, ALLOCATION):
            setattr(torch.UntypedStorage, name, _TableAttribute())
    allocations = vars(torch.UntypedStorage).get(ALLOCATION)
    if isinstance(allocations, _TableAttribute):
        for memory in memories:
            memory.collect = allocations.collect
