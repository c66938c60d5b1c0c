"""Transfers between devices, and waits of the host: exact counts, each with the line of code that caused it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
import typing_extensions

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_DEVICES, _FIXES = os.path.dirname(__file__) + os.sep, _PACKAGE + "fixes" + os.sep
_DECORATORS = (contextlib.__file__, typing_extensions.__file__, warnings.__file__)
_INSIDE = (os.path.dirname(torch.__file__) + os.sep, _PACKAGE, *_DECORATORS, "<frozen")
_TEST_RUNNER = f"{os.sep}_pytest{os.sep}"  # which reads values to show them
_DISTRIBUTED = tuple(
    os.path.join("torch", *parts)
    for parts in (("distributed", "distributed_c10d.py"), ("nn", "parallel", "distributed.py"))
)


@dataclasses.dataclass(frozen=True)
class Transfer:
    """One tensor that was copied from one device to another. `bytes` is what arrived, after a change of dtype."""

    bytes: int
    source: str
    target: str
    dtype: str
    shape: tuple[int, ...]
    call: str
    file: str
    line: int

    def __str__(self) -> str:
        what = f"{self.bytes} bytes {self.dtype}{list(self.shape)}"
        return f"{self.source} -> {self.target}: {what} by {self.call} at {self.file}:{self.line}"


@dataclasses.dataclass(frozen=True)
class Sync:
    """One time the host waited for a device, to read a value or for `synchronize`."""

    device: str
    call: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.device} waited for by {self.call} at {self.file}:{self.line}"


@dataclasses.dataclass(frozen=True)
class Site:
    """A line of the user's code, and the function of PyTorch that it calls."""

    call: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.call or 'code'} at {_short_path(self.file)}:{self.line}"


@dataclasses.dataclass(frozen=True)
class Race:
    """Memory that was used while other work on it could still be under way, as nothing waits for that work.

    `kind` is `"read"`, `"overwritten"`, `"freed"`, or `"streams"` for work of two streams. `work` is where the work was
    queued, such as the copy, and `use` where the memory was used. `text` says what happened and what to do.
    """

    kind: str
    device: str
    work: Site
    use: Site
    text: str

    def __str__(self) -> str:
        return self.text


class Ledger:
    """The transfers and host synchronisations of a simulation, in the order in which they happened."""

    def __init__(self) -> None:
        self.transfers: list[Transfer] = []
        self.syncs: list[Sync] = []
        self.races: list[Race] = []
        self.on_sync: Callable[[torch.device], Any] | None = None
        """Function that is called when the host waits for a device, also while nothing is recorded."""
        self.sync_debug: Callable[[torch.device, str, int], Any] | None = None
        """Function that is called with the user's line where the host waits, copies to a device included."""
        self.copies_in_flight: Callable[[torch.Tensor], Sequence[Any]] = lambda _: ()
        """The copies in flight to memory that a tensor uses."""
        self.work_in_flight: Callable[[torch.Tensor], Sequence[Any]] = lambda _: ()
        """Function that finds writes of a tensor by streams for which the current one has not waited."""
        self._pauses = 0
        self._spans: list[Ledger] = []

    def bytes(self, source: str | None = None, target: str | None = None) -> int:
        """Bytes that went from `source` to `target`; None is any. `"cuda"` covers all its indices, `"cuda:1"` one."""
        return sum(item.bytes for item in self.transfers if _is(item.source, source) and _is(item.target, target))

    def is_in_flight(self, tensor: torch.Tensor) -> bool:
        """Return whether a copy to the memory of a CPU tensor is in flight: reading it now is a race."""
        return bool(self.copies_in_flight(tensor))

    @contextmanager
    def span(self) -> Iterator[Ledger]:
        """A ledger of what happens inside the `with` only. The whole one counts it too."""
        inner = Ledger()
        inner.copies_in_flight, inner.work_in_flight = self.copies_in_flight, self.work_in_flight
        self._spans.append(inner)
        try:
            yield inner
        finally:
            self._spans.remove(inner)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing inside of the block, in any thread."""
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data, ready for JSON."""
        return {
            "transfers": [{**dataclasses.asdict(item), "shape": list(item.shape)} for item in self.transfers],
            "syncs": [dataclasses.asdict(item) for item in self.syncs],
            "races": [dataclasses.asdict(item) for item in self.races],
        }

    def summary(self) -> str:
        """A few lines: how much was transferred in which direction, then the lines of code, the costliest first."""
        directions = Counter((item.source, item.target) for item in self.transfers)
        lines = [
            f"{source} -> {target}: {_count(number, 'transfer')}, {self.bytes(source, target)} bytes"
            for (source, target), number in sorted(directions.items())
        ]
        lines += [f"host synchronisations: {len(self.syncs)}"] if self.syncs else []
        races = dict.fromkeys(f"race ({race.kind}): {race.use}, under way: {race.work}" for race in self.races)
        lines += list(races)
        groups: dict[tuple[str, int, str, str], list[int]] = {}
        for item in self.transfers:
            key = (item.file, item.line, item.call, f"{item.source} -> {item.target}")
            groups.setdefault(key, []).append(item.bytes)
        for sync in self.syncs:
            groups.setdefault((sync.file, sync.line, sync.call, f"waits for {sync.device}"), []).append(0)
        for (file, line, call, what), sizes in sorted(groups.items(), key=lambda group: (-sum(group[1]), group[0])):
            size = f", {sum(sizes)} bytes" if sum(sizes) else ""
            lines.append(f"  {_short_path(file)}:{line}: {call}: {what}, {_count(len(sizes), 'time')}{size}")
        return "\n".join(lines) or "nothing crossed between devices, and the host never waited"

    __str__ = summary

    def __repr__(self) -> str:
        transfers, syncs = _count(len(self.transfers), "transfer"), _count(len(self.syncs), "sync")
        return f"<Ledger: {transfers}, {self.bytes()} bytes, {syncs}>"

    def record_transfer(self, tensor: torch.Tensor, source: torch.device, target: torch.device) -> None:
        """Record that `tensor` arrived on `target`. An empty one is no transfer."""
        size = tensor.numel() * tensor.element_size()
        if size and not self._pauses:
            file, line, call = call_site()
            if file:
                dtype = str(tensor.dtype).removeprefix("torch.")
                self._record(Transfer(size, str(source), str(target), dtype, tuple(tensor.shape), call, file, line))

    def record_sync(self, device: torch.device, call: str = "") -> None:
        """Record that the host waited for the current stream of `device`."""
        if self.on_sync is not None:
            self.on_sync(device)
        self.record_wait(device, call)

    def record_wait(self, device: torch.device, call: str = "") -> None:
        """Record that the host waited, where what it waited for is known already."""
        if not self._pauses:
            file, line, found = call_site()
            if file:
                self._record(Sync(str(device), call or found, file, line))
                if self.sync_debug is not None and call != "synchronize":
                    self.sync_debug(device, file, line)

    def report_to_sync_debug(self, device: torch.device) -> None:
        """Report a wait that `record_wait` does not: a blocking copy to `device`, or `synchronize` of one stream."""
        if self.sync_debug is not None and not self._pauses:
            file, line, _ = call_site()
            if file:
                self.sync_debug(device, file, line)

    def record_race(self, race: Race) -> None:
        """Record that memory was used while work on it could still be under way."""
        if not self._pauses:
            self.races.append(race)
            for span in self._spans:
                span.record_race(race)

    def _record(self, entry: Transfer | Sync) -> None:
        if self._pauses:
            return
        entries: list[Any] = self.transfers if isinstance(entry, Transfer) else self.syncs
        entries.append(entry)
        for span in self._spans:
            span._record(entry)


def _short_path(file: str) -> str:
    """A path that a reader knows: below the installed packages, or below the working folder."""
    _, installed, inside = file.rpartition(f"site-packages{os.sep}")
    if installed:
        return inside
    try:
        relative = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if relative.startswith("..") else relative


def _is(device: str, wanted: str | None) -> bool:
    return wanted is None or device == wanted or device.split(":")[0] == wanted


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def call_site() -> tuple[str, int, str]:
    """The user's file and line that led here, and the name of the PyTorch function it called.

    The file is empty where the suite itself reads a value or moves a batch: that is no cost of the code under test.
    """
    call: str | FrameType = ""  # a frame has the function among its variables, which take long to look at
    frame = sys._getframe(1)
    while True:
        code = frame.f_code
        owner = _OWNERS[code.co_filename]
        if owner == "user":
            break
        if owner == "suite":
            return "", 0, _called_in(call)
        if code.co_name == "__torch_function__":  # of several, the outermost is what the user called
            call = frame
        elif owner == "distributed":  # no function mode sees a collective
            call = code.co_name
        if frame.f_back is None:
            break
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno, _called_in(call)


def _called_in(call: str | FrameType) -> str:
    return call if isinstance(call, str) else _function_name(call.f_locals.get("func", ""))


class _Owners(dict[str, str]):
    """Owner of a file's code: the user, the suite's, or that of PyTorch, the simulation and the reference fixes."""

    def __missing__(self, file: str) -> str:
        if not file.startswith(_INSIDE):
            owner = "suite" if _TEST_RUNNER in file else "user"
        elif file.startswith(_PACKAGE) and not file.startswith((_DEVICES, _FIXES)):
            owner = "suite"
        else:
            owner = "distributed" if file.endswith(_DISTRIBUTED) else "inner"
        if len(self) < _MOST_FILES:  # code that is made while a program runs may have a file for each piece
            self[file] = owner
        return owner


_OWNERS, _MOST_FILES = _Owners(), 10_000


def _function_name(function: Any) -> str:
    owner: Any = getattr(function, "__self__", None)
    if getattr(function, "__name__", "") in ("__get__", "__set__") and hasattr(owner, "__name__"):
        return str(owner.__name__)
    return str(getattr(function, "__name__", function))


def frames() -> Iterator[FrameType]:
    """The frames above the caller, the nearest first."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back
