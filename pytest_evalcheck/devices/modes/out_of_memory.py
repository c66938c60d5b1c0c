"""An operator whose results do not fit has not run: a device allocates first, then writes and draws random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import recount, simulated_device_of
from pytest_evalcheck.devices.device_memory import is_out_of_memory
from pytest_evalcheck.devices.rules.op_effects import written

_RESIZE_STORAGE = torch._C.StorageBase.resize_


def recount_written(func: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """Count the memory of the arguments again that an operator may have resized."""
    for tensor in written(func, args, kwargs):
        recount(tensor.untyped_storage())


@contextmanager
def effects_undone(func: Any, args: Any, kwargs: dict[str, Any], generators: list[Any]) -> Iterator[None]:
    """Restore what the operator wrote, and the states of the generators, where the block runs out of memory."""
    generators = [*generators, torch.default_generator, kwargs.get("generator")]
    states = [(generator, generator.get_state()) for generator in generators if isinstance(generator, torch.Generator)]
    tensors = [_Before(tensor) for tensor in written(func, args, kwargs) if simulated_device_of(tensor) is not None]
    try:
        yield
    except RuntimeError as error:
        if is_out_of_memory(error):
            for before in tensors:
                before.restore()
            for generator, state in states:
                generator.set_state(state)
        raise


class _Before:
    """A tensor as it was: its memory, and which part of it."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.storage = tensor.untyped_storage()
        self.bytes = _bytes_of(self.storage).clone()
        self.part = (tensor.storage_offset(), tensor.size(), tensor.stride())

    def restore(self) -> None:
        if self.storage.nbytes() != self.bytes.numel():
            _RESIZE_STORAGE(self.storage, self.bytes.numel())
            recount(self.storage)
        _bytes_of(self.storage).copy_(self.bytes)
        self.tensor.set_(self.storage, *self.part)


def _bytes_of(storage: Any) -> Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage)
