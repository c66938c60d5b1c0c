"""Memory of an evaluation: out-of-memory errors, injected or of a device, and tensors that are retained afterwards."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from pytest_evalcheck.kinds.common.tensors import each_tensor
from pytest_evalcheck.live_objects import all_objects, live_objects, new_objects_only

MESSAGE = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which 1.00 GiB is free."
)


class OutOfMemoryInjector:
    """Counts the forward passes of a model with several rows, and fails some of them after they have done their work.

    Args:
        at: the index of the first forward pass to fail; None to fail none.
        times: how many of them fail in a row.
    """

    def __init__(self, at: int | None = None, times: int = 1) -> None:
        self.at, self.times = at, times
        self.passes = 0
        """The number of forward passes of several rows."""
        self.failed = 0

    @contextmanager
    def watch(self, model: Any) -> Iterator[None]:
        """Count the forward passes of this model."""
        handle = model.register_forward_hook(self._after_pass, with_kwargs=True)
        try:
            yield
        finally:
            handle.remove()

    def _after_pass(self, model: Any, args: Any, kwargs: Any, outputs: Any) -> None:
        import torch

        del model, outputs
        if _rows((args, kwargs)) < 2:  # a pass of one row cannot be retried in parts
            return
        index, self.passes = self.passes, self.passes + 1
        if self.at is not None and index >= self.at and self.failed < self.times:
            self.failed += 1
            raise torch.OutOfMemoryError(MESSAGE)


class LimitedMemory:
    """A true out-of-memory error of a simulated device: a forward pass that needs one byte more than there is.

    A first evaluation measures what every forward pass of several rows takes on top of what is in use when it starts.
    A second one limits the device to less for one pass, and for the passes that evaluate its rows again. So a smaller
    part fits, unless what the failed pass left is still held.

    Args:
        memory: the memory of the device.
        needs: what the passes of several rows take, in bytes; None to measure it.
        at: the index of the pass to limit.
        share: how much of what it needs the pass gets. Passes of one row are limited only where it gets nearly all.
    """

    def __init__(self, memory: Any, needs: list[int] | None = None, at: int = 0, share: float = 1.0) -> None:
        self.memory, self.at, self.share = memory, at, share
        self.needs = [] if needs is None else needs
        self.failed = 0
        """The number of times that a pass did not fit."""
        self._measures = needs is None
        self._passes = self._rows = self._left = self._start = self._limit = self._ooms = 0

    @contextmanager
    def watch(self, model: Any) -> Iterator[None]:
        """Watch, or limit, the forward passes of this model."""
        gc.collect()  # garbage of earlier code that is freed in a pass would leave it more than it needs
        limit, peak = self.memory.limit, self.memory.peak
        handles = [
            model.register_forward_pre_hook(self._before_pass, with_kwargs=True),
            model.register_forward_hook(lambda *_: self._after_pass(limit), always_call=True),
        ]
        try:
            yield
        finally:
            self.memory.set_limit(limit)
            self.memory.peak = max(peak, self.memory.peak)
            for handle in handles:
                handle.remove()

    @property
    def given(self) -> int:
        """Bytes that the limited pass gets."""
        return int(self.needs[self.at] * self.share) - 1

    def _before_pass(self, model: Any, args: Any, kwargs: Any) -> None:
        del model
        self._rows, self._start, self._ooms = _rows((args, kwargs)), self.memory.used, self.memory.ooms
        if self._measures:
            self.memory.reset_peaks()
            return
        if self._rows > 1 and self._passes == self.at and not self._left and not self.failed:
            self._left = self._rows
            self._limit = self._start + self.given
        if self._left and (self._rows > 1 or self.share == 1):
            self.memory.set_limit(self._limit)

    def _after_pass(self, limit: int) -> None:
        self.memory.set_limit(limit)
        if self._measures:
            if self._rows > 1:
                self.needs.append(self.memory.peak - self._start)
        elif self.memory.ooms > self._ooms:
            self.failed += 1
        else:
            self._left = max(0, self._left - self._rows)
            self._passes += self._rows > 1


class RetainedTensors:
    """Tensors that evaluations retain: the outputs of a model, and graphs for a backward pass that never comes.

    As a context it limits the garbage collector to objects that are created inside: going through all objects of a
    process takes a second and more. Where something seems to be retained, it goes through all before it says so.
    """

    def __init__(self) -> None:
        self._outputs: list[list[Any]] = []
        """Per forward pass weak references to the storages of its outputs."""
        self._saved: list[Any] = []
        self._stack = ExitStack()

    def __enter__(self) -> RetainedTensors:
        self._stack.enter_context(new_objects_only())
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @contextmanager
    def watch(self, model: Any) -> Iterator[None]:
        """Watch this model; None where there is none to watch."""
        import torch

        if model is None:
            yield
            return
        handle = model.register_forward_hook(self._after_pass)
        try:
            with torch.autograd.graph.saved_tensors_hooks(self._pack, lambda saved: saved.tensor):
                yield
        finally:
            handle.remove()

    def saved_for_backward(self) -> int:
        """The number of tensors that are still saved for a backward pass."""
        return self._count(lambda: sum(saved() is not None for saved in self._saved), 0)

    def passes_with_outputs(self, model: Any, allowed: int = 1) -> int:
        """The number of forward passes whose outputs are still alive.

        Storages that several passes share, or that belong to the model, do not count.
        """
        passes = Counter(storage for outputs in self._outputs for storage in {output.cdata for output in outputs})
        owned = () if model is None else (*model.parameters(), *model.buffers())
        shared = {storage for storage, count in passes.items() if count > 1}
        shared |= {tensor.untyped_storage()._cdata for tensor in owned}

        def alive() -> int:
            return sum(any(not o.expired() and o.cdata not in shared for o in outputs) for outputs in self._outputs)

        return self._count(alive, allowed)

    def growing(self, call: Callable[[], Any]) -> list[int]:
        """The number of tensors after each of three calls where every call adds some; empty where one does not.

        Tensors from before are counted only where that is needed.
        """
        import torch

        def count(collect: bool) -> list[int]:
            counts = []
            for _ in range(3):
                call()
                if collect:
                    gc.collect()
                counts.append(len(live_objects(lambda cls: issubclass(cls, torch.Tensor))))
            return counts if counts[0] < counts[1] < counts[2] else []

        if count(False) and count(True):
            all_objects()
            gc.collect()  # what is older and garbage may hold what is new; one look at all objects frees it
            with new_objects_only():
                return count(True)
        return []

    def _count(self, alive: Callable[[], int], allowed: int) -> int:
        """Return what ``alive`` counts, and collect garbage first if that is more than is allowed."""
        for unfreeze in (False, True):
            if (count := alive()) <= allowed:
                break
            if unfreeze:
                all_objects()
            gc.collect()
            count = alive()
        return count

    def _after_pass(self, model: Any, args: Any, outputs: Any) -> None:
        from torch.multiprocessing.reductions import StorageWeakRef

        del model, args
        storages: list[Any] = []
        each_tensor(outputs, lambda tensor: storages.append(StorageWeakRef(tensor.untyped_storage())))
        self._outputs.append(storages)

    def _pack(self, tensor: Any) -> Any:
        saved = _Saved(tensor)
        self._saved.append(weakref.ref(saved))
        return saved


class _Saved:
    """A tensor that a graph saves; the graph holds the only reference to it."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def simulated_cuda_memory(device: str) -> Any:
    """The memory of a simulated CUDA device that is there; None for other devices.

    On MPS the error has no type of its own, so that a loop which retries need not know it.
    """
    import torch

    from pytest_evalcheck.devices.state import ACTIVE

    state = ACTIVE.state
    if state is None or torch.device(device).type != "cuda":
        return None
    found, _ = state.simulation.find(device)
    return None if found is None else found.memory


def _rows(inputs: Any) -> int:
    """The leading dimension of the first tensor that has one, else 0."""
    sizes: list[int] = []
    each_tensor(inputs, lambda tensor: sizes.extend(map(int, tensor.shape[:1])))
    return sizes[0] if sizes else 0
