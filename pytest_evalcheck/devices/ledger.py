"""What crossed between devices and when the host had to wait: exact counts, each with the line that caused it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_DEVICES, _FIXES = os.path.dirname(__file__) + os.sep, _PACKAGE + "fixes" + os.sep
_INSIDE = (os.path.dirname(torch.__file__) + os.sep, _PACKAGE, contextlib.__file__, "<frozen")


@dataclasses.dataclass(frozen=True)
class Transfer:
    """One tensor that went from one device to another. `bytes` is what arrived, after a change of dtype."""

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
    """One time the host waited for a device, to read a value or because it was told to."""

    device: str
    call: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.device} waited for by {self.call} at {self.file}:{self.line}"


class Ledger:
    """The transfers and host synchronisations of a simulation, in the order in which they happened."""

    def __init__(self) -> None:
        self.transfers: list[Transfer] = []
        self.syncs: list[Sync] = []
        self._pauses = 0
        self._spans: list[Ledger] = []

    def bytes(self, source: str | None = None, target: str | None = None) -> int:
        """Bytes that went from `source` to `target`; None is any. `"cuda"` covers all its indices, `"cuda:1"` one."""
        return sum(each.bytes for each in self.transfers if _is(each.source, source) and _is(each.target, target))

    @contextmanager
    def span(self) -> Iterator[Ledger]:
        """A ledger of what happens inside the `with` only. The whole one counts it too."""
        seen = Ledger()
        self._spans.append(seen)
        try:
            yield seen
        finally:
            self._spans.remove(seen)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is written down inside, in any thread."""
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data, ready for JSON."""
        return {
            "transfers": [{**dataclasses.asdict(each), "shape": list(each.shape)} for each in self.transfers],
            "syncs": [dataclasses.asdict(each) for each in self.syncs],
        }

    def summary(self) -> str:
        """A few lines: how much went which way, then every line of code that caused it, the costliest first."""
        ways = sorted({(each.source, each.target) for each in self.transfers})
        lines = []
        for source, target in ways:
            number = sum((each.source, each.target) == (source, target) for each in self.transfers)
            lines.append(f"{source} -> {target}: {_count(number, 'transfer')}, {self.bytes(source, target)} bytes")
        lines += [f"host synchronisations: {len(self.syncs)}"] if self.syncs else []
        groups: dict[tuple[str, int, str, str], list[int]] = {}
        for each in self.transfers:
            groups.setdefault((each.file, each.line, each.call, f"{each.source} -> {each.target}"), []).append(
                each.bytes
            )
        for wait in self.syncs:
            groups.setdefault((wait.file, wait.line, wait.call, f"waits for {wait.device}"), []).append(0)
        for (file, line, call, what), sizes in sorted(groups.items(), key=lambda item: (-sum(item[1]), item[0])):
            size = f", {sum(sizes)} bytes" if sum(sizes) else ""
            lines.append(f"  {_near(file)}:{line}: {call}: {what}, {_count(len(sizes), 'time')}{size}")
        return "\n".join(lines) or "nothing crossed between devices, and the host never waited"

    __str__ = summary

    def __repr__(self) -> str:
        transfers, syncs = _count(len(self.transfers), "transfer"), _count(len(self.syncs), "sync")
        return f"<Ledger: {transfers}, {self.bytes()} bytes, {syncs}>"

    def moved(self, tensor: torch.Tensor, source: torch.device, target: torch.device) -> None:
        """Write down that `tensor` arrived on `target`. An empty one is no transfer."""
        size = tensor.numel() * tensor.element_size()
        if size and not self._pauses:
            file, line, call = site()
            if not file:
                return
            dtype = str(tensor.dtype).removeprefix("torch.")
            self._write(Transfer(size, str(source), str(target), dtype, tuple(tensor.shape), call, file, line))

    def waited(self, device: torch.device, call: str = "") -> None:
        """Write down that the host waited for `device`."""
        if not self._pauses:
            file, line, found = site()
            if file:
                self._write(Sync(str(device), call or found, file, line))

    def _write(self, entry: Transfer | Sync) -> None:
        if self._pauses:
            return
        if isinstance(entry, Transfer):
            self.transfers.append(entry)
        else:
            self.syncs.append(entry)
        for span in self._spans:
            span._write(entry)


def _near(file: str) -> str:
    """A path that a reader knows: below the installed packages, or below the working folder."""
    _, installed, inside = file.rpartition(f"site-packages{os.sep}")
    if installed:
        return inside
    try:
        below = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if below.startswith("..") else below


def _is(device: str, wanted: str | None) -> bool:
    return wanted is None or device == wanted or device.split(":")[0] == wanted


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def site() -> tuple[str, int, str]:
    """The user's file and line that led here, and the name of the PyTorch function it called.

    No file where the suite itself looks at a value or brings a batch to a device: that is no cost of what it tries.
    """
    call, frame = "", sys._getframe(1)
    while frame is not None:
        whose = _whose(frame.f_code.co_filename)
        if whose is _OTHERS:
            return frame.f_code.co_filename, frame.f_lineno, call
        if whose is _SUITES:
            return "", 0, call
        if frame.f_code.co_name == "__torch_function__" and "func" in frame.f_locals:
            call = _name(frame.f_locals["func"])
        if frame.f_back is None:
            break
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno, call


_OTHERS, _SUITES, _PASSED = "the user's", "the suite's", "PyTorch's, or the simulation's"


@functools.lru_cache(maxsize=4096)
def _whose(file: str) -> str:
    """Whose code a file holds."""
    if not file.startswith(_INSIDE):
        return _OTHERS
    return _SUITES if file.startswith(_PACKAGE) and not file.startswith((_DEVICES, _FIXES)) else _PASSED


def _name(function: Any) -> str:
    owner: Any = getattr(function, "__self__", None)
    if getattr(function, "__name__", "") in ("__get__", "__set__") and hasattr(owner, "__name__"):
        return str(owner.__name__)
    return str(getattr(function, "__name__", function))


def frames() -> Iterator[FrameType]:
    """The frames above the caller, the nearest first."""
    frame = sys._getframe(2)
    while frame is not None:
        yield frame
        if frame.f_back is None:
            return
        frame = frame.f_back
