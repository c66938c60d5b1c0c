"""Missing waits between streams: a happens-before test of all work on the memory of simulated devices.

Each piece of work has a place in the order of its queue (`queues.py`). Two pieces of work race where both use the same
bytes, one of them writes, and neither is complete before the other starts. Memory that is freed goes back to the queue
on which it was allocated, and may be allocated there again while another queue still uses it: c10/cuda,
CUDACachingAllocator.cpp; `Tensor.record_stream` prevents that.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import simulated_device_of
from pytest_evalcheck.devices.ledger import Race, Site, call_site
from pytest_evalcheck.devices.memory_regions import Region, without_modes
from pytest_evalcheck.devices.queues import HappensBefore, Queue, StreamPosition
from pytest_evalcheck.devices.race_reports import RaceReports
from pytest_evalcheck.devices.release import TORCH_RELEASE

_OWNER = "_evalcheck_block"
_ROUNDING = 512
"""The allocator rounds sizes up to this: c10/core/AllocatorConfig.h, kMinBlockSize."""


@dataclasses.dataclass(frozen=True)
class Use:
    """One piece of work on some bytes."""

    region: Region
    work: StreamPosition
    site: Site
    writes: bool


@dataclasses.dataclass(eq=False)
class Block:
    """The memory of one storage."""

    region: Region
    owner: Queue
    """The queue on which it was allocated."""
    described: str
    uses: list[Use] = dataclasses.field(default_factory=list)
    recorded: set[Queue] = dataclasses.field(default_factory=set)
    """The queues that were named by `record_stream`."""

    @property
    def size(self) -> int:
        return (self.region.end + _ROUNDING - 1) // _ROUNDING * _ROUNDING


class _Lifetime:
    """An object that lives as long as the storage that has it as an attribute."""


class StreamRaces:
    """The memory of all simulated devices, with the last uses of each block."""

    def __init__(self, order: HappensBefore, reports: RaceReports) -> None:
        self.order, self.reports = order, reports
        self._blocks: dict[int, Block] = {}
        self._freed: dict[Queue, list[tuple[Block, Use, Site]]] = {}

    def created(self, tensor: Tensor) -> None:
        """A tensor is on a device from now on: it was allocated, and written, on the current queue."""
        if TORCH_RELEASE < (2, 5):  # attributes of a storage stay as long as a weak reference to it
            for block in [each for each in self._blocks.values() if each.region.view() is None]:
                self._storage_freed(block)
        device = simulated_device_of(tensor)
        storage = tensor.untyped_storage()
        if device is None or storage.nbytes() == 0 or storage._cdata in self._blocks:
            return
        site = _site()
        with without_modes():
            whole = Region(torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage))
        queue = self.order.current(device.torch_device)
        block = Block(region=whole, owner=queue, described=_described(tensor))
        block.uses.append(Use(whole, queue.add_work(), site, writes=True))
        self._report_memory_in_use(block, site)
        self._blocks[whole.address] = block
        lifetime = _Lifetime()
        setattr(storage, _OWNER, lifetime)
        weakref.finalize(lifetime, self._storage_freed, block).atexit = False

    def before_operator(self, func: Any, args: Any, kwargs: dict[str, Any], written: frozenset[str]) -> None:
        """Report work of an operator that races with earlier work.

        Autograd runs each node on the stream of its forward, and lets streams wait for one another:
        torch/csrc/autograd/engine.cpp and input_buffer.cpp.
        """
        if torch._C._current_graph_task_id() != -1:
            return
        site = None
        for tensor, writes in tensor_arguments(func, args, kwargs, written):
            device = simulated_device_of(tensor)
            block = None if device is None else self._block_of(tensor)
            if device is not None and block is not None:
                site = site or _site()
                self._use(block, tensor, self.order.current(device.torch_device), site, writes=writes)

    def record_stream(self, tensor: Tensor, queue: Queue) -> None:
        """Memory of a tensor is not allocated again before all work that a queue has by its end is complete."""
        block = self._block_of(tensor)
        if block is not None:
            block.recorded.add(queue)

    def unfinished(self, tensor: Tensor) -> list[Use]:
        """The work that wrote a tensor, and that is not complete before what the current stream does next."""
        device, block = simulated_device_of(tensor), self._block_of(tensor)
        if device is None or block is None:
            return []
        queue, region = self.order.current(device.torch_device), Region(tensor)
        return [
            use
            for use in block.uses
            if use.writes and not self.order.is_before(use.work, queue) and use.region.overlaps(region)
        ]

    def _block_of(self, tensor: Tensor) -> Block | None:
        try:
            return self._blocks.get(tensor.untyped_storage()._cdata)
        except (RuntimeError, NotImplementedError):  # no storage: sparse, functorch
            return None

    def _use(self, block: Block, tensor: Tensor, queue: Queue, site: Site, *, writes: bool) -> None:
        use = Use(Region(tensor), queue.add_work(), site, writes=writes)
        kept = []
        for earlier in block.uses:
            ordered = self.order.is_before(earlier.work, queue)
            if not ordered and (writes or earlier.writes) and earlier.region.overlaps(use.region):
                self._report(block, earlier, use)
            # What races with work that is replaced here races with its replacement too.
            replaced = ordered and (writes or (earlier.work[0] is queue and not earlier.writes))
            if not (replaced and _covers(use.region, earlier.region)):
                kept.append(earlier)
        block.uses = [*kept, use]

    def _report(self, block: Block, earlier: Use, use: Use) -> None:
        did, does = ("written" if each.writes else "read" for each in (earlier, use))
        text = (
            f"{block.described} on {block.owner.device} is {does} by {use.site} on {use.work[0]}, and {did} by "
            f"{earlier.site} on {earlier.work[0]}: neither waits for the other. Let the later one wait "
            "(`stream.wait_stream(other)`), and use `record_stream` for memory that is freed."
        )
        if use.site.file:
            self.reports.report(Race("streams", str(block.owner.device), earlier.site, use.site, text))

    def _storage_freed(self, block: Block) -> None:
        if block.region.view() is not None:  # the attribute is lost, and not the storage
            return
        self._blocks.pop(block.region.address, None)
        site = _site()
        for use in block.uses:
            queue = use.work[0]
            if queue is not block.owner and queue not in block.recorded:
                self._freed.setdefault(block.owner, []).append((block, use, site))

    def _report_memory_in_use(self, new: Block, site: Site) -> None:
        """Report freed memory that may be allocated again for a new block while another queue uses it."""
        freed = self._freed.pop(new.owner, [])
        left = [each for each in freed if not self.order.is_before(each[1].work, new.owner)]
        for entry in left:
            block, use, where = entry
            if new.size <= block.size and site.file:
                left.remove(entry)
                self._freed[new.owner] = left
                text = (
                    f"{block.described} on {block.owner.device} is used by {use.site} on {use.work[0]}, and was freed "
                    f"by {where}: its memory may be allocated again on {block.owner} by {site} before that use is "
                    "complete. Call `tensor.record_stream(stream)`, or let the stream that frees it wait."
                )
                self.reports.report(Race("freed", str(block.owner.device), use.site, site, text))
                return
        if left:
            self._freed[new.owner] = left


def _covers(region: Region, other: Region) -> bool:
    if region.is_dense:
        return region.start <= other.start and other.end <= region.end
    return (region.offset, region.size, region.stride, region.itemsize) == (
        other.offset,
        other.size,
        other.stride,
        other.itemsize,
    )


def tensor_arguments(
    func: Any, args: Any, kwargs: dict[str, Any], written: frozenset[str]
) -> Iterator[tuple[Tensor, bool]]:
    """The tensors among the arguments of an operator, each with whether it is written."""
    for number, argument in enumerate(func._schema.arguments):
        value = args[number] if number < len(args) else kwargs.get(argument.name)
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, Tensor):
                yield item, argument.name in written


def _site() -> Site:
    file, line, call = call_site()
    return Site(call, file, line)


def _described(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
