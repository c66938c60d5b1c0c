"""State that the modes, handlers and patches of a simulation share. It imports none of them."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.asynchrony import Asynchrony
from pytest_evalcheck.devices.device_marks import CPU, SimulatedDevice, simulated_device_of
from pytest_evalcheck.devices.device_memory import UNLIMITED
from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.ledger import Ledger, call_site
from pytest_evalcheck.devices.queues import HappensBefore
from pytest_evalcheck.devices.rules.unsupported_dtypes import UNSUPPORTED_DTYPES

KINDS = ("cuda", "mps")
MPS_FALLS_BACK = os.environ.get("PYTORCH_ENABLE_MPS_FALLBACK", "0") != "0"
"""True where MPS runs on the CPU what it lacks. PyTorch too reads it once, when it is imported: accelerate sets it
later, which has no effect on the process. aten/src/ATen/mps/MPSFallback.mm"""
NO_TARGET: Any = object()
"""The target of a thread in which no transfer runs."""
_DEVICES: dict[torch.device, SimulatedDevice] = {}  # all that were ever simulated


class _CurrentIndices(threading.local):
    def __init__(self) -> None:
        self.of_kind = dict.fromkeys(KINDS, 0)


class Simulation:
    """The devices of one `with simulate(...)`, and the ledger of what happens on them."""

    def __init__(
        self,
        devices: list[torch.device],
        in_flight: str = "warn",
        *,
        poison: bool = False,
        check_streams: bool = False,
        defer_asserts: bool = True,
    ) -> None:
        self.ledger = Ledger()
        self.order = HappensBefore(devices)
        self.asynchrony = Asynchrony(
            self.ledger,
            self.order,
            in_flight,
            poison=poison,
            check_streams=check_streams,
            defer_asserts=defer_asserts,
        )
        self.devices = {
            device: _DEVICES.setdefault(device, SimulatedDevice(device, UNSUPPORTED_DTYPES[device.type]))
            for device in devices
        }
        self.kinds = tuple(dict.fromkeys(device.type for device in devices))
        self.forked = self.closed = False
        self.falls_back = MPS_FALLS_BACK
        self.patches: Any = None
        """Attributes of PyTorch that the simulation replaces: `patches/patches.py`."""
        self._warned: set[str] = set()
        self._current = _CurrentIndices()
        self.set_available(True)

    def warn_once(self, key: str, text: str) -> None:
        """Warn at the caller's line, once in a simulation: TORCH_WARN_ONCE."""
        if key not in self._warned or torch.is_warn_always_enabled():
            self._warned.add(key)
            file, line, _ = call_site()
            warnings.warn_explicit(text, UserWarning, file or __file__, line)

    @property
    def current(self) -> dict[str, int]:
        """The index of the current device of each kind, in the thread that asks."""
        return self._current.of_kind

    @property
    def generators(self) -> list[Any]:
        """The default generators of the devices."""
        return [device.generator for device in self.devices.values()]

    def set_available(self, available: bool) -> None:
        """Record whether this simulation is open."""
        races = self.asynchrony.stream_races if available else None
        for device in self.devices.values():
            device.available = available
            device.on_mark = None if races is None else races.created

    @property
    def is_limited(self) -> bool:
        """Return whether a device may run out of memory."""
        for device in self.devices.values():  # noqa: SIM110  (any() takes three times as long)
            if device.memory.limit < UNLIMITED:
                return True
        return False

    def close(self) -> None:
        """Make tensors recognisable as left over, and stop threads that still run inside."""
        self.asynchrony.close()
        self.closed = True
        self.set_available(False)

    def names(self) -> str:
        return ", ".join(map(str, self.devices))

    def count(self, kind: str) -> int:
        """Return the number of devices of a kind."""
        return sum(device.type == kind for device in self.devices)

    def find(self, device: Any) -> tuple[SimulatedDevice | None, bool]:
        """The simulated device that a user's `device` means (None is the CPU), and whether it is the CPU or simulated.

        The second is False for devices that PyTorch itself has to handle, such as `meta`. Raises what PyTorch raises
        for a device that this simulation does not have.
        """
        if type(device) is torch.device and not self.forked:
            found = self.devices.get(device)
            if found is not None:
                return found, True
        if isinstance(device, int) and not isinstance(device, bool):
            device = torch.device(self.kinds[0], device)
        elif not isinstance(device, torch.device):
            device = torch.device(device)
        kind = device.type
        if kind not in KINDS:
            return None, bool(kind == "cpu")
        if kind not in self.kinds:
            if kind == "cuda":
                raise AssertionError("Torch not compiled with CUDA enabled")
            raise RuntimeError("PyTorch is not linked with support for mps devices")
        if self.forked:
            self._refuse_fork(kind)
        return self.devices[torch.device(kind, self.index_of(device))], True

    def index_of(self, device: torch.device) -> int:
        """The index of a device, the current one where none is given. Raises the driver's error for an unknown one."""
        if device.index is None:
            device = torch.device(device.type, self.current[device.type])
        if device not in self.devices:
            raise RuntimeError("CUDA error: invalid device ordinal")
        return int(device.index)

    def require_available(self, tensor: Tensor) -> None:
        """Raise unless this simulation has the device of a tensor, which may come from an earlier simulation."""
        device = simulated_device_of(tensor)
        if device is None or device.available:
            return
        if self.forked:
            self._refuse_fork(device.type)
        raise CannotSimulate(
            f"a tensor on {device}",
            f"it was left by an earlier simulate({device.type!r}), and the one that is open has "
            f"{self.names()}; move it with .cpu() before that one ends.",
        )

    def _refuse_fork(self, kind: str) -> None:
        if kind == "cuda":
            raise RuntimeError(
                "Cannot re-initialize CUDA in forked subprocess. "
                "To use CUDA with multiprocessing, you must use the 'spawn' start method"
            )
        raise CannotSimulate(f"{kind} in a forked process", "make device tensors in the process that simulates only.")


class ThreadState:
    """State that the two modes of one thread and the handlers share."""

    function_mode: Any
    """The mode itself: a handler enters it again for Python code that PyTorch calls back."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.ledger = simulation.ledger
        self.asynchrony = simulation.asynchrony
        self.creating = False
        """True where a factory runs that the user called: its result is marked when it returns."""
        self.target: Any = NO_TARGET
        """Target of the transfer that runs: a device, None for the CPU, or `NO_TARGET`."""
        self.native_device: SimulatedDevice | None = None
        """Device on which code in C++ that runs now creates tensors; None where no such code runs."""
        self.undoes = False
        """True where an operator runs whose effects are undone where memory runs out."""
        self.autocast: Any = None
        """Object that casts arguments where autocast is enabled: it holds the weights that were cast."""
        self.open_regions: list[Any] = []
        """Regions of `with torch.autocast(...)` that are open."""
        self.last_device: SimulatedDevice | None = None
        """Device of the last operator, which is where autograd makes a tensor from nothing."""

    def record_transfer(
        self,
        tensor: Tensor,
        source: SimulatedDevice | None,
        target: SimulatedDevice | None,
        *,
        waits: bool,
        non_blocking: bool = False,
    ) -> None:
        """Write a transfer into the ledger, and that the host waited for it."""
        source_device = CPU if source is None else source.torch_device
        self.ledger.record_transfer(tensor, source_device, CPU if target is None else target.torch_device)
        if waits and tensor.numel():
            self.ledger.record_sync(source_device)
        elif source is None and target is not None and not non_blocking:
            self.ledger.report_to_sync_debug(target.torch_device)

    def record_upload(self, tensor: Tensor, device: SimulatedDevice) -> None:
        """Write into the ledger that data of the host became a tensor on a device, by a blocking copy."""
        self.asynchrony.copied(tensor, tensor, None, device, non_blocking=False)
        self.record_transfer(tensor, None, device, waits=False)

    def record_read(self, tensor: Tensor) -> None:
        """Write into the ledger that the host waited to read a tensor, if it is on a device.

        One in the memory of the host is read at once, and must be complete.
        """
        device = simulated_device_of(tensor)
        if device is not None:
            self.ledger.record_sync(device.torch_device)
        else:
            self.record_read_of_host(tensor)

    def record_read_of_host(self, tensor: Tensor) -> None:
        """Report that a tensor in the memory of the host is read before a copy to it is complete."""
        if self.asynchrony.pending:
            self.asynchrony.host_uses(tensor)

    def close(self) -> None:
        """Close what the thread leaves open, before its modes end."""
        while self.open_regions:
            self.open_regions.pop().close()


class _Active(threading.local):
    state: ThreadState | None = None


ACTIVE = _Active()
"""`ACTIVE.state` is the state of the thread that asks, or None outside of a simulation."""

Handler = Callable[[ThreadState, Any, Any, dict[str, Any]], Any]


class _Handlers(dict[Any, "Handler | None"]):
    """The handler of each function of PyTorch; None for those that need none."""

    find: Callable[[Any], Handler | None]
    """Function that finds the handler of a function that is not listed. Set by the module that can do it."""

    def __missing__(self, func: Any) -> Handler | None:
        return self.find(func)


HANDLERS = _Handlers()


def handles(*functions: Any, only_on_device: bool = False, reads: bool = False) -> Callable[[Handler], Handler]:
    """Register a handler for PyTorch functions, or only for calls whose first argument is on a simulated device.

    `reads` is for functions that read the values of a CPU tensor without an operator.

    A getter such as `Tensor.device.__get__` is a new object each time, but compares and hashes equal.
    """

    def register(handler: Handler) -> Handler:
        def handle_on_device(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
            if simulated_device_of(args[0]) is None:
                if reads:
                    state.record_read(args[0])
                return func(*args, **kwargs)
            return handler(state, func, args, kwargs)

        HANDLERS.update(dict.fromkeys(functions, handle_on_device if only_on_device else handler))
        return handler

    return register
