"""Copies in flight: memory of the host that a device still reads or writes, and what uses it too early.

A simulated copy is complete at once. Which memory the device could still be at work on is recorded here, until the host
has waited for the copy.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_asserts import DeviceAsserts
from pytest_evalcheck.devices.device_marks import PINNED, SimulatedDevice, is_wrapper, simulated_device_of
from pytest_evalcheck.devices.ledger import Ledger, Race, Site, call_site
from pytest_evalcheck.devices.memory_regions import Region, alias_of, fill_with_garbage, without_modes
from pytest_evalcheck.devices.queues import HappensBefore, StreamPosition
from pytest_evalcheck.devices.race_reports import RaceReports
from pytest_evalcheck.devices.release import TORCH_RELEASE
from pytest_evalcheck.devices.stream_races import StreamRaces, tensor_arguments

# https://github.com/pytorch/pytorch/pull/181017 retains the memory of the host until a copy to or from MPS is complete.
MEMORY_IS_RETAINED = TORCH_RELEASE >= (2, 13)

# What an operator takes a tensor for whose values it does not read.
_UNREAD_NAMES = (
    "empty_like zeros_like ones_like full_like rand_like randn_like randint_like new_empty new_empty_strided new_zeros "
    "new_ones new_full is_same_size"
)
_UNREAD = frozenset(f"aten::{name}" for name in _UNREAD_NAMES.split())


@dataclasses.dataclass(eq=False)
class Copy:
    """One copy between the host and a device that the host has not waited for."""

    device: torch.device
    work: StreamPosition
    site: Site
    memory: Region
    """The memory of the host."""
    to_host: bool
    described: str
    truth: Tensor | None = None
    """The values that arrive in memory which holds garbage until then."""
    target: tuple[Region, Any, int] | None = None
    """Memory of the device that gets the values which the source has in the end: with its tensor and its version."""
    overwritten: bool = False
    reported: bool = False


class Asynchrony:
    """The copies in flight of a simulation, and the races between its streams.

    Nothing has to be looked at while `pending` is false.
    """

    def __init__(
        self,
        ledger: Ledger,
        order: HappensBefore,
        in_flight: str,
        *,
        poison: bool,
        check_streams: bool,
        defer_asserts: bool,
    ) -> None:
        self.order, self.poison = order, poison
        self.reports = RaceReports(ledger, in_flight)
        self.stream_races = StreamRaces(order, self.reports) if check_streams else None
        self.asserts = DeviceAsserts(order, deferred=defer_asserts)
        self.pending = check_streams
        self._copies: dict[int, list[Copy]] = {}  # by the address of the storage
        self._accesses: dict[Any, frozenset[str] | None] = {}
        self._limit = 1000
        order.on_wait = self.complete
        ledger.copies_in_flight = self.copies_to
        if self.stream_races is not None:
            ledger.work_in_flight = self.stream_races.unfinished
        ledger.on_sync = self._host_waits_for_current

    def _host_waits_for_current(self, device: torch.device) -> None:
        if device in self.order.defaults:
            self.order.host_waits(self.order.current(device).everything())

    def copied(
        self,
        source: Tensor,
        target: Tensor,
        source_device: SimulatedDevice | None,
        target_device: SimulatedDevice | None,
        *,
        non_blocking: bool,
    ) -> bool:
        """Take note of a copy between devices that was made. Returns whether it is in flight."""
        device = target_device if source_device is None else source_device
        if device is None or not target.numel():
            return False
        if source_device is not None and target_device is not None:
            self._barrier(source_device, target_device)
            return False
        to_host = target_device is None
        memory, other = (target, source) if to_host else (source, target)
        if non_blocking and _stays_in_flight(device, memory, other, to_host=to_host):
            file, line, call = call_site()
            if file:
                self._add(device, source, target, Site(call, file, line), to_host=to_host)
            return True
        # A blocking copy waits for its stream: c10/cuda/CUDAFunctions.h, memcpy_and_sync. So does one to memory that is
        # not pinned. One from such memory waits for the stream before it reads: CUDA's "API synchronization behavior".
        self._host_waits_for_current(device.torch_device)
        return False

    def _add(self, device: SimulatedDevice, source: Tensor, target: Tensor, site: Site, *, to_host: bool) -> None:
        queue = self.order.current(device.torch_device)
        memory = target if to_host else source
        dtype = str(memory.dtype).removeprefix("torch.")
        copy = Copy(
            device=device.torch_device,
            work=queue.add_work(),
            site=site,
            memory=Region(memory),
            to_host=to_host,
            described=f"{dtype}{list(memory.shape)}",
        )
        if self.poison and not memory.is_quantized:
            with without_modes():
                if to_host:
                    view = alias_of(target)
                    copy.truth = view.clone()
                    fill_with_garbage(view)
                else:
                    copy.target = Region(target), target, target._version
        if len(self._copies) > self._limit:
            self._forget_freed()
        self._copies.setdefault(copy.memory.address, []).append(copy)
        self.pending = True

    def _barrier(self, source: SimulatedDevice, target: SimulatedDevice) -> None:
        """A copy between two devices waits for both streams, and they for it: aten/src/ATen/native/cuda/Copy.cu."""
        queues = [self.order.current(device.torch_device) for device in (source, target)]
        for queue, other in (queues, queues[::-1]):
            self.order.wait(queue, other.everything())

    def complete(self) -> None:
        """Drop the copies that the host has waited for, after their values have arrived."""
        if not self.pending:
            return
        arrived = [copy for copies in self._copies.values() for copy in copies if self.order.is_complete(copy.work)]
        for copy in arrived:
            self._drop(copy)
        self.asserts.raise_if_seen()
        self._report_freed(arrived)

    def kernel_fails(self, device: SimulatedDevice, assertion: str) -> None:
        """An assert of a kernel fails; see `DeviceAsserts`."""
        self.pending = True
        self.asserts.fail(device, assertion)

    def close(self) -> None:
        """The simulation ends: all values arrive."""
        self.pending = False
        for copies in list(self._copies.values()):
            for copy in list(copies):
                self._drop(copy)

    def before_operator(self, special: str, target: Any, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """Report an operator that uses memory of the host before a copy to or from it is complete.

        `special` and `target` are those of its plan and of its thread: a copy between devices waits in its queue.
        """
        if special == "compose":  # its parts come here too
            return
        if self.asserts.failures:
            self.asserts.raise_if_used(args, kwargs)
        written = self._accesses.get(func, _MISSING)
        if written is _MISSING:
            written = self._accesses[func] = _written_arguments(func)
        if self.stream_races is not None and written is not None:
            self.stream_races.before_operator(func, args, kwargs, written)
        if not self._copies:
            return
        if self.poison:
            self._let_overwritten_values_arrive()
        if special == "copy":
            for pair in [args[:2]] if isinstance(args[0], Tensor) else zip(args[0], args[1], strict=True):
                self._before_copy(*pair)
            return
        if special == "cast" and isinstance(target, SimulatedDevice) and simulated_device_of(args[0]) is None:
            self._device_uses(args[0], target.torch_device)
            return
        if written is not None:
            for tensor, writes in tensor_arguments(func, args, kwargs, written):
                self.host_uses(tensor, writes=writes)

    def copies_to(self, tensor: Tensor) -> list[Copy]:
        """The copies in flight to memory that a tensor uses."""
        return [copy for copy in self._copies_at(tensor) if copy.to_host]

    def _before_copy(self, target: Tensor, source: Tensor) -> None:
        target_device, source_device = simulated_device_of(target), simulated_device_of(source)
        if target_device is None and source_device is None:
            self.host_uses(source)
            self.host_uses(target, writes=True)
        elif target_device is None and source_device is not None:
            self._device_uses(target, source_device.torch_device)
        elif source_device is None and target_device is not None:
            self._device_uses(source, target_device.torch_device)
        elif source_device is not target_device and source_device is not None and target_device is not None:
            self._barrier(source_device, target_device)

    def host_uses(self, tensor: Tensor, *, writes: bool = False) -> None:
        """Report that the host reads or writes memory before a copy to or from it is complete."""
        for copy in self._copies_at(tensor):
            if copy.to_host or writes:
                self._report(copy, "overwritten" if writes else "read")
                copy.overwritten = copy.overwritten or not copy.to_host

    def _device_uses(self, tensor: Tensor, device: torch.device) -> None:
        """Report that another copy uses memory of the host, unless its queue is behind the copy in flight."""
        for copy in self._copies_at(tensor):
            if not self.order.is_before(copy.work, self.order.current(device)):
                self._report(copy, "read" if copy.to_host else "overwritten")
            elif copy.truth is not None:
                self._let_values_arrive(copy)

    def _copies_at(self, tensor: Tensor) -> list[Copy]:
        try:
            address = tensor.untyped_storage()._cdata
        except (RuntimeError, NotImplementedError):  # no storage: sparse, functorch
            return []
        copies = self._copies.get(address)
        if not copies:
            return []
        with without_modes():
            region = Region(tensor)
            return [copy for copy in copies if copy.memory.overlaps(region)]

    def _report(self, copy: Copy, kind: str) -> None:
        file, line, call = call_site()
        if not file:  # the suite: it waits before it reads
            self.order.host_waits({copy.work[0]: copy.work[1]})
        else:
            use = Site(call, file, line)
            race = Race(kind, str(copy.device), copy.site, use, _text(copy, kind, use))
            again, copy.reported = copy.reported, True
            self.reports.report(race, again=again)

    def _report_freed(self, copies: list[Copy]) -> None:
        """A copy from the host to MPS reads memory that is used for something else by now, before PyTorch 2.13."""
        for copy in copies:
            retained = copy.to_host or MEMORY_IS_RETAINED or copy.device.type != "mps"
            if not retained and not copy.reported and copy.memory.storage.expired() and call_site()[0]:
                self._report(copy, "freed")

    def _let_overwritten_values_arrive(self) -> None:
        for copies in self._copies.values():
            for copy in copies:
                if copy.overwritten:
                    _copy_again(copy)

    def _let_values_arrive(self, copy: Copy) -> None:
        view = copy.memory.view()
        if copy.truth is not None and view is not None:
            with without_modes():
                view.copy_(copy.truth)
        copy.truth = None

    def _drop(self, copy: Copy) -> None:
        copies = self._copies[copy.memory.address]
        copies.remove(copy)
        if not copies:
            del self._copies[copy.memory.address]
        self.pending = bool(self._copies or self.asserts.failures) or self.stream_races is not None
        self._let_values_arrive(copy)
        if copy.overwritten:
            _copy_again(copy)

    def _forget_freed(self) -> None:
        """Memory that nobody has can be used by nobody."""
        freed = [copy for copies in self._copies.values() for copy in copies if copy.memory.storage.expired()]
        for copy in freed:
            self._drop(copy)
        self._report_freed(freed)
        self._limit = 1000 + 2 * len(self._copies)


_MISSING: Any = object()


def _copy_again(copy: Copy) -> None:
    """Return the value on the device if its copy starts now, unless its memory was written since."""
    if copy.target is None:
        return
    region, tensor, version = copy.target
    source, target = copy.memory.view(), region.view()
    if source is not None and target is not None and tensor._version == version:
        with without_modes():
            target.copy_(source)


def _stays_in_flight(device: SimulatedDevice, memory: Tensor, other: Tensor, *, to_host: bool) -> bool:
    """Return whether a non-blocking copy uses this memory of the host after the call has returned.

    CUDA: aten/src/ATen/native/cuda/Copy.cu; a copy to or from memory that is not pinned, which temporaries are,
    returns when the memory may be used again. TensorConversions.cpp, `pin_out`: `.to("cpu", non_blocking=True)`
    returns pinned memory. MPS: aten/src/ATen/native/mps/operations/Copy.mm; all memory of the host is used in place,
    unless it is cast or gathered first.
    """
    if memory.layout is not torch.strided or is_wrapper(memory):
        return False
    same_layout = memory.stride() == other.stride() and memory.shape == other.shape
    direct = memory.dtype == other.dtype and same_layout and Region(memory).is_dense
    if device.type == "cuda":
        pinned = bool(getattr(memory.untyped_storage(), PINNED, False))
        return pinned and (direct or memory.is_contiguous())
    return to_host or direct


def _written_arguments(func: Any) -> frozenset[str] | None:
    """The arguments whose memory an operator writes; None where it uses no memory, such as a view."""
    schema = func._schema
    written = frozenset(
        argument.name
        for argument in schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    )
    if torch.Tag.inplace_view in func.tags or schema.name in _UNREAD:
        return None
    views = bool(schema.returns) and all(result.alias_info is not None for result in schema.returns)
    return None if views and not written else written


_WHAT = {
    "read": "is read",
    "overwritten": "is overwritten",
    "freed": "is freed",
}


def _text(copy: Copy, kind: str, use: Site) -> str:
    way = f"from {copy.device}" if copy.to_host else f"to {copy.device}"
    what = f"{copy.described} in the memory of the host {_WHAT[kind]} by {use}"
    effect = "it may hold other values" if copy.to_host else "the device may get other values"
    wait = f"torch.{copy.device.type}.synchronize()"
    return (
        f"{what}, while the copy {way} by {copy.site} may still be in flight: {effect}. "
        f"Wait for the copy first (`{wait}`), or copy without `non_blocking=True`."
    )
