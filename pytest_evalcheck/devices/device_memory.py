"""Memory of a device that is in use, and the errors that a device raises where more does not fit.

Every storage on a device refers to an allocation, which counts its bytes for as long as the storage lives: whoever
holds it, Python, autograd or PyTorch itself. Bytes are those that the program asked for. The allocators of the devices
round them up (CUDA's to 512, and more where it leaves a block whole: c10/cuda/CUDACachingAllocator.cpp, round_size and
should_split), so that a real device reports a little more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from pytest_evalcheck.devices.errors import SimulationError
from pytest_evalcheck.devices.release import TORCH_RELEASE
from pytest_evalcheck.errors import nearest_word

UNLIMITED = 2**63
TOTAL_BYTES = 16 * 2**30
"""Memory of a device without a given limit. Nothing is refused then, so that the memory of the machine is the limit."""
OutOfMemoryError: type[RuntimeError] = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)


def _nothing() -> None:
    pass


class DeviceMemory:
    """The memory of one device. What is left by an earlier simulation is on the device, and so it is in use."""

    __slots__ = (
        "allocated",
        "allocation",
        "collect",
        "count",
        "count_before",
        "counted",
        "device",
        "limit",
        "ooms",
        "peak",
        "peak_count",
        "peak_reserved",
        "reserved",
        "retries",
        "total",
        "used",
        "used_before",
        "watched",
    )

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.allocation = _allocations_of(self)
        self.used = self.count = 0
        """The bytes and the storages that are there now."""
        self.peak = self.peak_count = self.peak_reserved = self.watched = 0
        self.collect: Callable[[], None] = _nothing
        """Frees what is known to be dead, for releases of PyTorch in which that is not noticed at once."""
        self.begin(None)

    def begin(self, total: int | None) -> None:
        """A simulation starts, in which the device has so many bytes; None for the usual number, without a limit."""
        self.collect()
        self.total = TOTAL_BYTES if total is None else total
        self.limit = UNLIMITED if total is None else total
        self.reserved = self.used
        self.reset_accumulated()
        self.reset_peaks()

    @property
    def is_limited(self) -> bool:
        return self.limit < UNLIMITED

    def set_limit(self, limit: int) -> None:
        """Allow so many bytes from now on. What is in use stays."""
        self.limit = limit
        self._watch()

    def allocate(self, size: int) -> Any:
        """Count so many bytes as in use, until what this returns is dropped. Raises the device's error without room."""
        if self.used + size > self.watched:
            self._grow(size)
        allocation = self.allocation(size)
        self.used += size
        self.allocated += size
        self.count += 1
        self.counted += 1
        if self.count > self.peak_count:
            self.peak_count = self.count
        return allocation

    def _grow(self, size: int) -> None:
        self.collect()
        used = self.used + size
        if used > self.limit:
            self.retries += 1
            self.empty_cache()
            self.ooms += 1
            raise out_of_memory(self, size)
        self.reserved = max(self.reserved, used)
        self.peak = max(self.peak, used)
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        self._watch()

    def empty_cache(self) -> None:
        """Return what was in use once and is no longer. The device retains it until then."""
        self.collect()
        self.reserved = self.used
        self._watch()

    def reset_peaks(self) -> None:
        """Forget the highest numbers of bytes."""
        self.collect()
        self.peak, self.peak_reserved, self.peak_count = self.used, self.reserved, self.count
        self._watch()

    def reset_accumulated(self) -> None:
        """Start to add up anew what is allocated over time; what is there now counts from before."""
        self.allocated = self.counted = self.ooms = self.retries = 0
        self.used_before, self.count_before = self.used, self.count

    @property
    def freed(self) -> tuple[int, int]:
        """The bytes and the storages that were freed since then."""
        return self.used_before + self.allocated - self.used, self.count_before + self.counted - self.count

    def _watch(self) -> None:
        """Set how many bytes are in use before there is anything to do but count."""
        self.watched = min(self.peak, self.reserved, self.limit)


def _allocations_of(memory: DeviceMemory) -> Callable[[int], Any]:
    """The class of the allocations on a device: a number of bytes, which are free again when nobody refers to it.

    A class for each device and a number, as an object with two attributes takes three times as long to make.
    """

    class Allocation(int):
        __slots__ = ()

        def __del__(self) -> None:
            memory.used -= self
            memory.count -= 1

        def __deepcopy__(self, memo: dict[int, Any]) -> None:
            return None

    return Allocation


def out_of_memory(memory: DeviceMemory, size: int) -> RuntimeError:
    """The error for so many bytes that do not fit."""
    text = _MPS if memory.device.type == "mps" else _CUDA
    allowed = "" if memory.limit == memory.total else f"{format_size(memory.limit)} allowed; "
    if size >= 2**60 and memory.device.type == "cuda":  # c10/cuda/CUDACachingAllocator.cpp, allocate
        return OutOfMemoryError("CUDA out of memory. Tried to allocate more than 1EB memory.")
    message = text.format(
        size=format_size(size),
        index=memory.device.index,
        total=format_size(memory.total),
        free=format_size(max(0, memory.total - memory.reserved)),
        used=format_size(memory.used),
        limit=format_size(memory.limit),
        cached=format_size(memory.reserved - memory.used),
        other=format_size(0),
        allowed=allowed,
        configuration="PYTORCH_CUDA_ALLOC_CONF" if TORCH_RELEASE < (2, 9) else "PYTORCH_ALLOC_CONF",
    )
    return RuntimeError(message) if memory.device.type == "mps" else OutOfMemoryError(message)


def does_not_fit(memory: DeviceMemory, error: BaseException) -> RuntimeError | None:
    """The device's error where the machine itself lacks the memory for a tensor on it; None for any other error."""
    found = re.search(r"DefaultCPUAllocator: .* you tried to allocate (\d+) bytes", str(error))
    return None if found is None else out_of_memory(memory, int(found.group(1)))


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error is one of `out_of_memory`: that of MPS has no type of its own."""
    return isinstance(error, OutOfMemoryError) or str(error).startswith("MPS backend out of memory (")


def parse_size(size: Any) -> int:
    """The bytes that a user means by an int, `"80MB"` or `"2GiB"`. Raises `SimulationError` for anything else."""
    expected = 'expected bytes as an int, or a text such as "80MB" or "2GiB"'
    if isinstance(size, int) and not isinstance(size, bool):
        if size > 0:
            return size
        raise SimulationError(f"memory={size!r}: expected at least 1 byte")
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", size, re.I) if isinstance(size, str) else None
    if found is None:
        near = f"; did you mean memory={int(size)}?" if isinstance(size, float) and size >= 1 else ""
        raise SimulationError(f"memory={size!r}: {expected}{near}")
    number, unit = found.groups()
    factor = _UNITS.get(unit.lower())
    if factor is None:
        near_unit = f"{unit.upper()}B" if unit.lower() in ("k", "m", "g", "t") else _near_unit(unit)
        raise SimulationError(f'memory={size!r}: {expected}; did you mean "{number}{near_unit}"?')
    if float(number) * factor < 1:
        raise SimulationError(f"memory={size!r}: expected at least 1 byte")
    return int(float(number) * factor)


def _near_unit(unit: str) -> str:
    alike = (each for each in _WRITTEN if each[0] == unit[:1].upper())
    return nearest_word(unit, _WRITTEN, cutoff=0.6) or next(alike, "MB")


_WRITTEN = ("KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB")


_UNITS = {"b": 1}
_UNITS |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)}
_UNITS |= {f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)}


def format_size(size: int) -> str:
    """Bytes as PyTorch's allocators write them. c10/core/CachingDeviceAllocator.h, format_size."""
    if size <= 2**10:
        return f"{size} bytes"
    for power, unit in ((1, "KiB"), (2, "MiB")):
        if size <= 2 ** (10 * (power + 1)):
            return f"{size / 2 ** (10 * power):.2f} {unit}"
    return f"{size / 2**30:.2f} GiB"


# c10/cuda/CUDACachingAllocator.cpp, malloc
_CUDA = (
    "CUDA out of memory. Tried to allocate {size}. GPU {index} has a total capacity of {total} of which {free} is "
    "free. Including non-PyTorch memory, this process has {used} memory in use. {allowed}"
    "Of the allocated memory {used} is allocated by PyTorch, and {cached} is reserved by PyTorch but unallocated. "
    "If reserved but unallocated memory is large try setting {configuration}=expandable_segments:True to avoid "
    "fragmentation.  See documentation for Memory Management  "
    "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
)
# aten/src/ATen/mps/MPSAllocator.mm, alloc_buffer_block
_MPS = (
    "MPS backend out of memory (MPS allocated: {used}, other allocations: {other}, max allowed: {limit}). "
    "Tried to allocate {size} on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for "
    "memory allocations (may cause system failure)."
)
