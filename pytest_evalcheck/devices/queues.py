"""The order of work: what is complete before what, as host, streams and events have waited for one another.

A stream is a queue of work. Inside a simulation all work is done at once, in the order of the program. Whether that
order is guaranteed on the device is a question of vector clocks: each queue, and the host, knows up to which position
it has waited for every other queue.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch

_POOL_SIZE = 32
VectorClock = dict["Queue", int]
"""Position up to which work of each queue is complete, as far as the owner of this has waited for it."""
StreamPosition = tuple["Queue", int]
"""One piece of work: its queue, and its position there."""


class Queue:
    """One stream of a device."""

    def __init__(self, device: torch.device, number: int, priority: int = 0) -> None:
        self.device, self.number, self.priority = device, number, priority
        self.position = 0
        """The position of the last piece of work that others may wait for."""
        self.seen: VectorClock = {}

    def __repr__(self) -> str:
        return f"stream {self.number} of {self.device}" if self.number else f"the default stream of {self.device}"

    def add_work(self) -> StreamPosition:
        """Queue a piece of work that others may wait for."""
        self.position += 1
        return self, self.position

    def everything(self) -> VectorClock:
        """Return what is complete when all work that is queued by now is complete."""
        return {**self.seen, self: self.position}


class _CurrentQueues(threading.local):
    def __init__(self) -> None:
        self.of_device: dict[torch.device, Queue] = {}


class HappensBefore:
    """The queues of all devices of a simulation, and what the host has waited for.

    Threads of the host count as one: a thread that uses what another has waited for was handed it afterwards.
    """

    def __init__(self, devices: Iterable[torch.device]) -> None:
        self.defaults = {device: Queue(device, 0) for device in devices}
        self.queues = list(self.defaults.values())
        self.host: VectorClock = {}
        self.on_wait: Callable[[], Any] = lambda: None
        """Function that is called after the host has waited for something."""
        self._pools: dict[tuple[torch.device, int], list[Queue]] = {}
        self._taken: dict[tuple[torch.device, int], int] = {}
        self._current = _CurrentQueues()

    def from_pool(self, device: torch.device, priority: int = 0) -> Queue:
        """The next of 32 queues of a device and a priority, which are given out in turn: c10/cuda/CUDAStream.cpp."""
        taken = self._taken.get((device, priority), 0)
        self._taken[device, priority] = taken + 1
        pool = self._pools.setdefault((device, priority), [])
        if len(pool) < _POOL_SIZE:
            pool.append(Queue(device, len(self.queues), priority))
            self.queues.append(pool[-1])
        return pool[taken % _POOL_SIZE]

    def current(self, device: torch.device) -> Queue:
        """The queue on which work of this thread is done."""
        found = self._current.of_device
        return found[device] if device in found else self.defaults[device]

    def set_current(self, queue: Queue) -> None:
        """Change the queue on which work of this thread is done."""
        self._current.of_device[queue.device] = queue

    def wait(self, queue: Queue, seen: VectorClock) -> None:
        """Let later work of a queue wait for what `seen` says."""
        _merge(queue.seen, seen)

    def host_waits(self, seen: VectorClock) -> None:
        """Let the host wait for what `seen` says."""
        _merge(self.host, seen)
        self.on_wait()

    def host_waits_for_device(self, device: torch.device) -> None:
        """Let the host wait for all queues of a device."""
        for queue in self.queues:
            if queue.device == device:
                _merge(self.host, queue.everything())
        self.on_wait()

    def is_complete(self, work: StreamPosition) -> bool:
        """Return whether the host has waited for a piece of work."""
        return self.host.get(work[0], 0) >= work[1]

    def is_before(self, work: StreamPosition, queue: Queue) -> bool:
        """Return whether a piece of work is complete before what is queued next: the host queues in its own order."""
        return work[0] is queue or self.is_complete(work) or queue.seen.get(work[0], 0) >= work[1]


def _merge(known: VectorClock, more: VectorClock) -> None:
    for queue, position in more.items():
        if known.get(queue, 0) < position:
            known[queue] = position
