"""Marks that outlive a garbage cycle, for releases of PyTorch in which attributes of a storage do not.

There, the Python object of a storage that was part of a cycle comes back without its attributes (saving a model is
enough). A weak reference to the storage keeps its address from being used again, so the address is as good a key.
"""

from __future__ import annotations

import functools
import gc
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from pytest_evalcheck.devices.device_marks import MARK, PINNED


class _Kept:
    """A data descriptor for storages that keeps its values in a table of its own."""

    def __init__(self) -> None:
        self.table: dict[int, tuple[StorageWeakRef, Any]] = {}
        self.limit = 1000

    def __get__(self, storage: Any, owner: Any = None) -> Any:
        if storage is None:
            return self
        found = self.table.get(storage._cdata)
        return None if found is None else found[1]

    def __set__(self, storage: Any, value: Any) -> None:
        self.table[storage._cdata] = StorageWeakRef(storage), value
        if len(self.table) > self.limit:
            self.table = {key: each for key, each in self.table.items() if not each[0].expired()}
            self.limit = 1000 + 2 * len(self.table)


@functools.cache
def attributes_last() -> bool:
    """Whether this release keeps the attributes of a storage that was part of a garbage cycle."""
    tensor = torch.empty(1, device="cpu")
    storage = tensor.untyped_storage()
    storage._evalcheck_probe = True
    cycle: list[Any] = [storage]
    cycle.append(cycle)
    del storage, cycle
    gc.collect(0)
    return hasattr(tensor.untyped_storage(), "_evalcheck_probe")


def install() -> None:
    """Once, for the whole process: tensors keep their marks after a simulation."""
    if not isinstance(vars(torch.UntypedStorage).get(MARK), _Kept) and not attributes_last():
        setattr(torch.UntypedStorage, MARK, _Kept())
        setattr(torch.UntypedStorage, PINNED, _Kept())
