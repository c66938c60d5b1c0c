"""`simulate`: the one way in."""

from __future__ import annotations

import difflib
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch

from pytest_evalcheck.devices.device_marks import SimulatedDevice
from pytest_evalcheck.devices.errors import CannotSimulate, SimulationError
from pytest_evalcheck.devices.handlers import (
    attributes,
    autograd_callbacks,
    composites,
    creation,
    packed_sequences,
    transfers,
)
from pytest_evalcheck.devices.ledger import Ledger
from pytest_evalcheck.devices.modes.dispatch_mode import SimulationDispatchMode
from pytest_evalcheck.devices.modes.function_mode import ACTIVE, SimulationFunctionMode
from pytest_evalcheck.devices.patches import (
    autocast,
    backends,
    compiled,
    deferred_imports,
    generators,
    lru_cache_reset,
    persistent_marks,
    storages,
    threads,
)
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.rules.unsupported_dtypes import UNSUPPORTED_DTYPES

KINDS = ("cuda", "mps")
# Each registers its handlers when it is imported.
HANDLED_IN = (attributes, composites, creation, packed_sequences, transfers)
_NICKNAMES = {"gpu": "cuda", "nvidia": "cuda", "metal": "mps", "apple": "mps", "rocm": "cuda", "hip": "cuda"}
_OPEN: list[Simulation] = []  # at most one
_PLACES: dict[torch.device, SimulatedDevice] = {}  # all that were ever simulated


class _Current(threading.local):
    """The index of the current device of each kind, for each thread."""

    def __init__(self) -> None:
        self.index = dict.fromkeys(KINDS, 0)

    def __getitem__(self, kind: str) -> int:
        return self.index[kind]

    def __setitem__(self, kind: str, index: int) -> None:
        self.index[kind] = index


class Simulation:
    """The devices of one `with simulate(...)`, and what happened on them."""

    def __init__(self, devices: list[torch.device]) -> None:
        self.ledger = Ledger()
        self.places = {
            each: _PLACES.setdefault(each, SimulatedDevice(each, UNSUPPORTED_DTYPES[each.type])) for each in devices
        }
        for place in self.places.values():
            place.open = True
        self.kinds = tuple(dict.fromkeys(each.type for each in devices))
        self.current = _Current()
        self.forked = False
        self._modes: weakref.WeakSet[SimulationFunctionMode | SimulationDispatchMode] = weakref.WeakSet()

    def names(self) -> str:
        return ", ".join(str(each) for each in self.places)

    def device(self, index: int) -> torch.device:
        """What an index alone means: one of the first kind of device."""
        return torch.device(self.kinds[0], index)

    def find(self, device: Any) -> tuple[SimulatedDevice | None, bool]:
        """The place of what a user wrote for a device (None is the CPU), and whether it is for us to say."""
        if isinstance(device, int) and not isinstance(device, bool):
            device = self.device(device)
        elif not isinstance(device, torch.device):
            device = torch.device(device)
        kind = device.type
        if kind == "cpu":
            return None, True
        if kind not in KINDS:
            return None, False
        if kind not in self.kinds:
            if kind == "cuda":
                raise AssertionError("Torch not compiled with CUDA enabled")
            raise RuntimeError("PyTorch is not linked with support for mps devices")
        if self.forked:
            self.refuse_fork(kind)
        if device.index is None:
            device = torch.device(kind, self.current[kind])
        return self.places[self.checked(device)], True

    def checked(self, device: torch.device) -> torch.device:
        """A device with an index, if it is simulated. Raises what the driver raises where it is not."""
        if device not in self.places:
            raise RuntimeError("CUDA error: invalid device ordinal")
        return device

    def refuse_fork(self, kind: str) -> None:
        """Raise what CUDA raises in a process that was forked; nobody promises anything for the others."""
        if kind == "cuda":
            raise RuntimeError(
                "Cannot re-initialize CUDA in forked subprocess. "
                "To use CUDA with multiprocessing, you must use the 'spawn' start method"
            )
        raise CannotSimulate(f"{kind} in a forked process", "make device tensors in the process that simulates only.")

    def check_generator(self, generator: Any, place: SimulatedDevice | None) -> None:
        generators.check(generator, place)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """The modes, for the thread that enters."""
        function = SimulationFunctionMode(self)
        dispatch = SimulationDispatchMode(function)
        self._modes |= {function, dispatch}
        before, ACTIVE.function = getattr(ACTIVE, "function", None), function
        try:
            with function, dispatch:
                yield
        finally:
            ACTIVE.function = before

    def close(self) -> None:
        """Leave tensors recognisable as left over, and stop threads that still run inside."""
        for place in self.places.values():
            place.open = False
        for mode in list(self._modes):
            mode.__class__ = _OverFunction if isinstance(mode, SimulationFunctionMode) else _OverDispatch


class _OverFunction(SimulationFunctionMode):
    """What a thread meets that outlives its simulation."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise CannotSimulate("a thread that outlives its simulation", "join it inside the with block.")


class _OverDispatch(SimulationDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise CannotSimulate("a thread that outlives its simulation", "join it inside the with block.")


def _after_fork() -> None:
    for simulation in _OPEN:
        simulation.forked = True
        for place in simulation.places.values():
            place.open = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def simulate(
    *devices: str, compile: Literal["refuse", "eager"] = "refuse", even_if_real: bool = False
) -> Iterator[Ledger]:
    """Run real code, with real values, on accelerators that are not there. Yields the `Ledger` of what it costs.

    `devices` are `"cuda"`, `"mps"`, or with an index: `"cuda:1"` gives a machine with `cuda:0` and `cuda:1`.
    `compile="eager"` runs what is given to `torch.compile` uncompiled, rather than refusing it.
    `even_if_real` simulates a device of which the machine has a real one, which is refused otherwise.

    Raises `SimulationError` where the devices make no sense, `CannotSimulate` inside, where only the device itself
    can answer, and PyTorch's own errors for everything that the device would refuse.
    """
    if compile not in ("refuse", "eager"):
        raise SimulationError(f"compile={compile!r}: expected 'refuse' or 'eager'")
    wanted = _devices(devices)
    with _nested(wanted) if _OPEN else _opened(wanted, compile == "eager", even_if_real) as ledger:
        yield ledger


@contextmanager
def _opened(wanted: list[torch.device], eager: bool, even_if_real: bool) -> Iterator[Ledger]:
    if not even_if_real:
        _refuse_real(wanted)
    persistent_marks.install()
    simulation, patches = Simulation(wanted), Patches()
    default = dict(vars(torch._GLOBAL_DEVICE_CONTEXT))
    _OPEN.append(simulation)
    try:
        backends.install(patches, simulation)
        storages.install(patches)
        threads.install(patches)
        generators.install(patches)
        compiled.install(patches, compile_runs_eagerly=eager)
        autocast.install(patches, simulation)
        autograd_callbacks.install(patches)
        deferred_imports.install(patches)
        lru_cache_reset.forget()
        with simulation.entered():
            try:
                yield simulation.ledger
            finally:
                _restore_default_device(default)
    finally:
        simulation.close()
        _OPEN.remove(simulation)
        patches.undo()
        lru_cache_reset.forget()


def _restore_default_device(before: dict[str, Any]) -> None:
    now = vars(torch._GLOBAL_DEVICE_CONTEXT)
    if now.get("device_context") is not before.get("device_context"):
        context = before.get("device_context")
        torch.set_default_device(None if context is None else context.device)
    if not before:
        now.clear()


@contextmanager
def _nested(wanted: list[torch.device]) -> Iterator[Ledger]:
    """The same devices once more: one simulation, and a ledger of the inner block."""
    outer = _OPEN[0]
    if getattr(ACTIVE, "function", None) is None:
        raise SimulationError(
            f"another thread simulates {outer.names()}: PyTorch's devices are the same for all threads"
        )
    if list(outer.places) != wanted:
        inner = ", ".join(str(each) for each in wanted)
        raise SimulationError(
            f"simulate inside simulate: the outer one has {outer.names()}, the inner one wants {inner}; "
            "leave the outer one first, or name all devices in it"
        )
    with outer.ledger.span() as seen:
        yield seen


def _devices(names: tuple[str, ...]) -> list[torch.device]:
    if not names:
        raise SimulationError('simulate() needs a device: simulate("cuda"), simulate("mps"), simulate("cuda", "mps")')
    found: dict[torch.device, None] = {}
    for name in names:
        kind, _, index = str(name).partition(":")
        if kind not in KINDS:
            raise SimulationError(f"cannot simulate {name!r}: {_hint(kind)}")
        if index and (not index.isdecimal() or (kind == "mps" and int(index)) or int(index) > 63):
            raise SimulationError(
                f"cannot simulate {name!r}: expected an index {'of 0' if kind == 'mps' else '0 to 63'}"
            )
        for number in range(int(index or 0) + 1):
            found[torch.device(kind, number)] = None
    return list(found)


def _hint(kind: str) -> str:
    if kind == "cpu":
        return "the CPU is always there"
    near = _NICKNAMES.get(kind.lower()) or next(iter(difflib.get_close_matches(kind.lower(), KINDS, 1)), None)
    return (f"did you mean {near!r}? " if near else "") + f"Known are {' and '.join(map(repr, KINDS))}"


def _refuse_real(wanted: list[torch.device]) -> None:
    there = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}
    for kind in dict.fromkeys(each.type for each in wanted):
        if there[kind]():
            raise SimulationError(
                f"this machine has a real {kind}: run on it, or pass simulate({kind!r}, even_if_real=True)"
            )
