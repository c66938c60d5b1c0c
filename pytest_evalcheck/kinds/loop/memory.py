"""Memory of an evaluation: running out of it half way, and what is still held afterwards."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pytest_evalcheck.kinds.common.tensors import each_tensor

MESSAGE = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which 1.00 GiB is free."
)


class Forwards:
    """The forward passes of a model, of which some run out of memory after they have done their work."""

    def __init__(self, at: int | None = None, times: int = 1) -> None:
        self.failing, self.times = at, times
        """Which forward pass of several rows is the first to fail, and how many of them in a row."""
        self.several = 0
        """How many forward passes of several rows there were."""
        self.failed = 0

    @contextmanager
    def of(self, model: Any) -> Iterator[None]:
        """Count those of this model."""
        handle = model.register_forward_hook(self._after, with_kwargs=True)
        try:
            yield
        finally:
            handle.remove()

    def _after(self, model: Any, args: Any, kwargs: Any, outputs: Any) -> None:
        import torch

        del model, outputs
        if _rows((args, kwargs)) < 2:  # what fails with one row cannot be retried in parts
            return
        place, self.several = self.several, self.several + 1
        if self.failing is not None and place >= self.failing and self.failed < self.times:
            self.failed += 1
            raise torch.OutOfMemoryError(MESSAGE)


class Held:
    """What evaluations hold on to: the outputs of a model, and graphs for a backward pass that nobody takes.

    As a context it keeps the garbage collector to what is made in there: what all modules of a process hold takes it a
    second and more. Where something seems to be held, it looks through everything before that is said.
    """

    def __init__(self) -> None:
        self._outputs: list[list[Any]] = []
        """Of each forward pass the memory of its outputs, which is not kept alive by this."""
        self._saved: list[Any] = []
        self._frozen = False

    def __enter__(self) -> Held:
        self._frozen = not gc.get_freeze_count()  # what somebody else has frozen is to stay so
        if self._frozen:
            gc.freeze()
        return self

    def __exit__(self, *error: object) -> None:
        self._thaw()

    def _thaw(self) -> None:
        if self._frozen:
            gc.unfreeze()
        self._frozen = False

    @contextmanager
    def of(self, model: Any) -> Iterator[None]:
        """Watch this model; None where there is none to watch."""
        import torch

        if model is None:
            yield
            return
        handle = model.register_forward_hook(self._after)
        try:
            with torch.autograd.graph.saved_tensors_hooks(self._pack, lambda kept: kept.tensor):
                yield
        finally:
            handle.remove()

    def graphs(self) -> int:
        """How many tensors are still kept for a backward pass."""
        return self._left(lambda: sum(saved() is not None for saved in self._saved), 0)

    def outputs(self, model: Any, allowed: int = 1) -> int:
        """Of how many forward passes outputs are still held; memory that passes share, or the model owns, is none."""
        times = Counter(memory for outputs in self._outputs for memory in {one.cdata for one in outputs})
        owned = () if model is None else (*model.parameters(), *model.buffers())
        shared = {memory for memory, seen in times.items() if seen > 1}
        shared |= {one.untyped_storage()._cdata for one in owned}

        def alive() -> int:
            return sum(any(not o.expired() and o.cdata not in shared for o in outputs) for outputs in self._outputs)

        return self._left(alive, allowed)

    def growing(self, call: Callable[[], Any]) -> list[int]:
        """How many tensors there are after each of three calls, where every call adds some; nothing where one does not.

        Tensors from before are counted only where that is needed.
        """

        def counted(collect: bool) -> list[int]:
            counts = []
            for _ in range(3):
                call()
                if collect:
                    gc.collect()
                counts.append(_tensors())
            return counts if counts[0] < counts[1] < counts[2] else []

        if counted(False) and counted(True):
            self._thaw()
            return counted(True)
        return []

    def _left(self, alive: Callable[[], int], allowed: int) -> int:
        """What is alive, after as much collecting as it takes to be sure if that is more than is allowed."""
        for thawed in (False, True):
            if (count := alive()) <= allowed:
                break
            if thawed:
                self._thaw()
            gc.collect()
            count = alive()
        return count

    def _after(self, model: Any, args: Any, outputs: Any) -> None:
        from torch.multiprocessing.reductions import StorageWeakRef

        del model, args
        found: list[Any] = []
        each_tensor(outputs, lambda tensor: found.append(StorageWeakRef(tensor.untyped_storage())))
        self._outputs.append(found)

    def _pack(self, tensor: Any) -> Any:
        kept = _Saved(tensor)
        self._saved.append(weakref.ref(kept))
        return kept


class _Saved:
    """A tensor that a graph saves: it is gone when the graph is."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def _tensors() -> int:
    import torch

    # By their type alone: asking an object for its class may run code of its own.
    return sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())


def _rows(given: Any) -> int:
    sizes: list[int] = []

    def see(tensor: Any) -> Any:
        if tensor.dim():
            sizes.append(int(tensor.shape[0]))
        return tensor

    each_tensor(given, see)
    return sizes[0] if sizes else 0
