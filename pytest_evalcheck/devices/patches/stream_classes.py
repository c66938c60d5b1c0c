"""`torch.Stream`, `torch.Event` and those of `torch.cuda` and `torch.mps` for simulated devices.

Work is done at once, in the order of the program: that is one of the orders that the device may choose. Who waits for
whom is recorded in the `HappensBefore` of the simulation, which says whether another order is possible.
"""
# ruff: noqa: ARG002  (the parameters are PyTorch's)

from __future__ import annotations

import ctypes
from typing import Any

import torch

from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.queues import Queue, VectorClock
from pytest_evalcheck.devices.state import ACTIVE, Simulation

_TYPE_NUMBERS = {"cuda": 1, "mps": 13}  # c10/core/DeviceType.h
_PRIORITIES = (0, -3)  # c10/cuda/CUDAStream.h, priority_range: those that PyTorch supports
_HANDLE = 0x5EED0000
_REAL_STREAM, _REAL_EVENT = torch.Stream, getattr(torch, "Event", None)


def simulation() -> Simulation:
    """The simulation of this thread."""
    if ACTIVE.state is None:
        raise CannotSimulate("a stream in this thread", "it does not belong to the simulation that is open.")
    return ACTIVE.state.simulation


def _find_device(kind: str | None, device: Any) -> torch.device:
    """The device for which a stream or an event is made: the current one of the kind where none is named."""
    simulated = simulation()
    if device is None or (isinstance(device, int) and device < 0):
        device = torch.device(kind or simulated.kinds[0])
    elif isinstance(device, int) and kind is not None:
        device = torch.device(kind, device)
    found, _ = simulated.find(device)
    if found is None:
        raise RuntimeError(f"Invalid device, must be {kind or 'accelerator'} device: {device}")
    return found.torch_device


class Stream:
    """`torch.Stream` on a simulated device: a handle of one queue."""

    _kind: str | None = None
    _queue: Queue

    def __new__(cls, device: Any = None, *args: Any, priority: int = 0, **known: Any) -> Any:
        if args or "stream_id" in known:
            return cls._find_stream(*((device, *args) if args else ()), **known)
        if device is not None and not isinstance(device, int) and torch.device(device).type == "cpu":
            return _REAL_STREAM(device)
        where = _find_device(cls._kind, device)
        # aten/src/ATen/mps/MPSGuardImpl.h, getNewStream: there is one stream
        order = simulation().order
        lowest, highest = _PRIORITIES
        priority = min(lowest, max(highest, priority))
        return cls._stream_of_queue(order.defaults[where] if where.type == "mps" else order.from_pool(where, priority))

    @classmethod
    def _find_stream(cls, stream_id: int = 0, device_index: int = 0, device_type: int = 1, **_: Any) -> Stream:
        kind = next((kind for kind, number in _TYPE_NUMBERS.items() if number == device_type), "cpu")
        device = _find_device(kind, device_index)
        for queue in simulation().order.queues:
            if queue.device == device and queue.number == stream_id:
                return cls._stream_of_queue(queue)
        raise CannotSimulate(f"stream {stream_id}", "it was not made in this simulation; make a torch.cuda.Stream().")

    @classmethod
    def _stream_of_queue(cls, queue: Queue) -> Stream:
        stream = object.__new__(cls)
        stream._queue = queue
        stream._entered = []  # type: ignore[attr-defined]
        return stream

    @property
    def device(self) -> torch.device:
        return self._queue.device

    @property
    def device_index(self) -> int:
        return int(self._queue.device.index)

    @property
    def device_type(self) -> int:
        return _TYPE_NUMBERS[self._queue.device.type]

    @property
    def stream_id(self) -> int:
        return self._queue.number

    @property
    def native_handle(self) -> int:
        return _HANDLE + 16 * self._queue.number if self._queue.number else 0

    def wait_event(self, event: Any) -> None:
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        simulation().order.wait(self._queue, queue_of(stream).everything())

    def record_event(self, event: Any = None) -> Any:
        event = self._new_event() if event is None else event
        event.record(self)
        return event

    def _new_event(self) -> Any:
        return Event(self._queue.device)

    def query(self) -> bool:
        """Return True: all work is done at once. It is known to be done from here on."""
        simulation().order.host_waits(self._queue.everything())
        return True

    def synchronize(self) -> None:
        simulated = simulation()
        simulated.order.host_waits(self._queue.everything())
        simulated.ledger.record_wait(self._queue.device, "synchronize")
        simulated.ledger.report_to_sync_debug(self._queue.device)

    def is_capturing(self) -> bool:
        return False

    def __enter__(self) -> Any:
        """Make it the current stream of its device, and its device the current one, until the block ends."""
        simulated = simulation()
        kind, order = self._queue.device.type, simulated.order
        self._entered.append((simulated.current[kind], order.current(self._queue.device)))  # type: ignore[attr-defined]
        set_current(self)
        return self

    def __exit__(self, *_: object) -> None:
        index, queue = self._entered.pop()  # type: ignore[attr-defined]
        simulated = simulation()
        simulated.order.set_current(queue)
        simulated.current[self._queue.device.type] = index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other._queue is self._queue

    def __hash__(self) -> int:
        return hash((self.stream_id, self.device))

    def __repr__(self) -> str:
        kind = self._queue.device.type
        return f"torch.Stream device_type={kind}, device_index={self.device_index}, stream_id={self.stream_id}"


class CudaStream(Stream):
    """`torch.cuda.Stream` on a simulated device."""

    _kind = "cuda"

    def __new__(cls, device: Any = None, priority: int = 0, **known: Any) -> Any:
        if "stream_ptr" in known:
            raise CannotSimulate("torch.cuda.ExternalStream", "there is no stream of another library.")
        return super().__new__(cls, device, priority=priority, **known)

    @classmethod
    def priority_range(cls) -> tuple[int, int]:
        return _PRIORITIES

    @property
    def priority(self) -> int:
        return self._queue.priority

    @property
    def cuda_stream(self) -> int:
        return self.native_handle

    @property
    def _as_parameter_(self) -> Any:
        return ctypes.c_void_p(self.cuda_stream)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.cuda_stream

    def _new_event(self) -> Any:
        return CudaEvent()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CudaStream) and other._queue is self._queue

    __hash__ = Stream.__hash__

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class Event:
    """`torch.Event` on a simulated device: it stands for what was queued when it was recorded."""

    _kind: str | None = None

    def __new__(cls, device: Any = None, **options: Any) -> Any:
        if cls is Event and device is not None and not isinstance(device, int) and torch.device(device).type == "cpu":
            return None if _REAL_EVENT is None else _REAL_EVENT(device, **options)
        return object.__new__(cls)

    def __init__(
        self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self._type = _find_device(self._kind, device).type
        self._timed = enable_timing
        self._seen: VectorClock | None = None
        self._device: torch.device | None = None

    @property
    def device(self) -> torch.device | None:
        return self._device

    @property
    def event_id(self) -> int:
        return 0 if self._seen is None else _HANDLE + id(self) % _HANDLE

    def record(self, stream: Any = None) -> None:
        queue = self._queue_for(stream)
        if self._device is not None and self._device != queue.device:
            index = self._device.index
            raise RuntimeError(f"Event device {index} does not match recording stream's device {queue.device.index}.")
        self._device, self._seen = queue.device, queue.everything()

    def wait(self, stream: Any = None) -> None:
        if self._seen is not None:
            simulation().order.wait(self._queue_for(stream), self._seen)

    def query(self) -> bool:
        """Return True: all work is done at once. It is known to be done from here on."""
        if self._seen is not None:
            simulation().order.host_waits(self._seen)
        return True

    def synchronize(self) -> None:
        if self._seen is not None and self._device is not None:
            simulated = simulation()
            simulated.order.host_waits(self._seen)
            simulated.ledger.record_wait(self._device, "synchronize")

    def elapsed_time(self, end_event: Any) -> float:
        """Raise PyTorch's errors for events that cannot be compared, else `CannotSimulate`."""
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._seen is None or end_event._seen is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        raise CannotSimulate(
            "the time between events", "a simulated device has no speed; measure on the device itself."
        )

    def ipc_handle(self) -> Any:
        raise CannotSimulate("an event for another process", "the other process has no such device.")

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: Any) -> Any:
        raise CannotSimulate("an event of another process", "no other process has such a device.")

    def _queue_for(self, stream: Any) -> Queue:
        if stream is not None:
            return queue_of(stream)
        simulated = simulation()
        return simulated.order.current(torch.device(self._type, simulated.current[self._type]))

    def __repr__(self) -> str:
        return f"torch.Event device_type={self._type}, device_index={getattr(self._device, 'index', -1)}"


class CudaEvent(Event):
    """`torch.cuda.Event` on a simulated device."""

    _kind = "cuda"

    def __new__(cls, *_: Any, **__: Any) -> Any:
        return object.__new__(cls)

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        super().__init__(None, enable_timing=enable_timing)

    @property
    def cuda_event(self) -> int:
        return self.event_id

    @property
    def _as_parameter_(self) -> Any:
        return ctypes.c_void_p(self.cuda_event)

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {self.cuda_event:#x}>" if self.cuda_event else "<torch.cuda.Event uninitialized>"


class MpsEvent(Event):
    """`torch.mps.Event` on a simulated device. It is recorded in the one stream of MPS, and always exists."""

    _kind = "mps"

    def __new__(cls, *_: Any, **__: Any) -> Any:
        return object.__new__(cls)

    def __init__(self, enable_timing: bool = False) -> None:
        super().__init__(None, enable_timing=enable_timing)


def queue_of(stream: Any) -> Queue:
    """The queue that a stream of this simulation stands for."""
    queue = getattr(stream, "_queue", None)
    if not isinstance(queue, Queue) or queue not in simulation().order.queues:
        raise CannotSimulate(
            f"{stream!r}", "it was made outside of this simulation, or in an earlier simulation; make a new one inside."
        )
    return queue


def set_current(stream: Any) -> None:
    """Make a stream the current one of its device, and its device the current one: `torch._C._cuda_setStream`."""
    queue, simulated = queue_of(stream), simulation()
    simulated.order.set_current(queue)
    simulated.current[queue.device.type] = int(queue.device.index)
