"""`simulate`: the one public way into a simulation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch

from pytest_evalcheck.devices.device_memory import parse_size
from pytest_evalcheck.devices.errors import SimulationError
from pytest_evalcheck.devices.handlers import (
    attributes,
    autograd_callbacks,
    composites,
    composites_of_one_device,
    creation,
    data_with_device,
    device_constructor,
    missing_factories,
    plan_caches,
    recurrent,
    single_kernels,
    transfers,
    views,
)
from pytest_evalcheck.devices.ledger import Ledger
from pytest_evalcheck.devices.modes.function_mode import enter_modes
from pytest_evalcheck.devices.patches import (
    autocast,
    backends,
    compiled,
    default_device,
    distributed,
    generators,
    imported_modules,
    overrides,
    persistent_marks,
    processes,
    storages,
    tensor_groups,
    threads,
)
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.race_reports import IN_FLIGHT
from pytest_evalcheck.devices.simulation_end import ended_at_exit
from pytest_evalcheck.devices.state import ACTIVE, KINDS, Simulation
from pytest_evalcheck.errors import nearest_word

# Each registers its handlers when it is imported.
HANDLER_MODULES = (
    attributes,
    autograd_callbacks,
    composites,
    composites_of_one_device,
    creation,
    data_with_device,
    device_constructor,
    missing_factories,
    plan_caches,
    recurrent,
    single_kernels,
    transfers,
    views,
)
_NICKNAMES = {"gpu": "cuda", "nvidia": "cuda", "metal": "mps", "apple": "mps", "rocm": "cuda", "hip": "cuda"}
_CHOICES: dict[str, tuple[str, ...]] = {
    "compile": ("refuse", "eager"),
    "in_flight": IN_FLIGHT,
    "streams": ("trust", "check"),
    "asserts": ("deferred", "at once"),
}
_OPEN: list[Simulation] = []  # at most one


def _after_fork() -> None:
    for simulation in _OPEN:
        simulation.forked = True
        simulation.set_available(False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def simulate(
    *devices: str,
    compile: Literal["refuse", "eager"] = "refuse",
    even_if_real: bool = False,
    in_flight: Literal["warn", "error", "ignore"] = "warn",
    poison: bool = False,
    memory: int | str | None = None,
    streams: Literal["trust", "check"] = "trust",
    asserts: Literal["deferred", "at once"] = "deferred",
) -> Iterator[Ledger]:
    """Run real code, with real values, on simulated accelerators. Yields the `Ledger` of transfers and waits.

    `devices` are `"cuda"`, `"mps"`, or with an index: `"cuda:1"` gives a machine with `cuda:0` and `cuda:1`. Where none
    is given, they are those of the environment variable `EVALCHECK_SIMULATE`, separated by commas.
    `compile="eager"` runs what is given to `torch.compile` uncompiled, rather than refusing it.
    `even_if_real` simulates a device of which the machine has a real one, which is refused otherwise.
    `in_flight` says what happens where memory is used before a non-blocking copy to or from it is complete: a warning,
    an `UnsynchronizedAccess` error, or nothing but an entry in `ledger.races`.
    `streams="check"` finds missing waits between streams, which are reported likewise. It takes several times longer.
    `asserts` says when a kernel of CUDA complains of an index or a label out of range: when the host waits for it, as
    on the device, after which the device is of no use; or at once, with the error of the CPU.
    With `poison` such memory holds garbage until the host has waited for the copy: NaN, odd numbers.
    `memory` is how much each device has: bytes, or a text such as `"80MB"` or `"2GiB"`. What does not fit raises the
    device's out-of-memory error. None is 16 GiB that never run out.

    Raises `SimulationError` where the devices are impossible, `CannotSimulate` inside, where only the device itself
    can answer, and PyTorch's own errors for everything that the device would refuse.
    """
    given = {
        "compile": compile,
        "even_if_real": even_if_real,
        "in_flight": in_flight,
        "poison": poison,
        "memory": memory,
        "streams": streams,
        "asserts": asserts,
    }
    for name, choices in _CHOICES.items():
        if given[name] not in choices:
            *others, last = map(repr, choices)
            raise SimulationError(f"{name}={given[name]!r}: expected {', '.join(others)} or {last}")
    wanted = _parse_devices(devices or processes.named_in_the_environment())
    size = None if memory is None else parse_size(memory)
    with _nested(wanted, size) if _OPEN else _opened(wanted, given, size) as ledger:
        yield ledger


@contextmanager
def _opened(wanted: list[torch.device], given: dict[str, Any], memory: int | None) -> Iterator[Ledger]:
    if not given["even_if_real"]:
        _refuse_real(wanted)
    with ended_at_exit(_running(wanted, given, memory)) as ledger:
        yield ledger


@contextmanager
def _running(wanted: list[torch.device], given: dict[str, Any], memory: int | None) -> Iterator[Ledger]:
    simulation = Simulation(
        wanted,
        in_flight=given["in_flight"],
        poison=given["poison"],
        check_streams=given["streams"] == "check",
        defer_asserts=given["asserts"] == "deferred",
    )
    patches = simulation.patches = Patches()
    persistent_marks.install(device.memory for device in simulation.devices.values())
    for device in simulation.devices.values():
        device.memory.begin(memory)
    default = dict(vars(torch._GLOBAL_DEVICE_CONTEXT))
    _OPEN.append(simulation)
    try:
        generators.install(patches, simulation)
        backends.install(patches, simulation)
        storages.install(patches)
        threads.install(patches)
        tensor_groups.install(patches)
        processes.install(patches, simulation, simulate, given)
        compiled.install(patches, compile_runs_eagerly=given["compile"] == "eager")
        autocast.install(patches)
        default_device.install(patches)
        autograd_callbacks.install(patches)
        distributed.install(patches, simulation)
        overrides.install(patches)
        imported_modules.install(patches)
        imported_modules.reset_lru_caches()
        with enter_modes(simulation):
            autocast.refresh(ACTIVE.state)  # it may be on around the simulation
            try:
                yield simulation.ledger
            finally:
                _restore_default_device(default)
    finally:
        simulation.close()
        for device in simulation.devices.values():
            device.memory.begin(None)
        _OPEN.remove(simulation)
        patches.undo()
        imported_modules.reset_lru_caches()


def _restore_default_device(before: dict[str, Any]) -> None:
    now = vars(torch._GLOBAL_DEVICE_CONTEXT)
    if now.get("device_context") is not before.get("device_context"):
        context = before.get("device_context")
        torch.set_default_device(None if context is None else context.device)
    if not before:
        now.clear()


@contextmanager
def _nested(wanted: list[torch.device], memory: int | None) -> Iterator[Ledger]:
    """The same devices once more: one simulation, and a ledger of the inner block."""
    outer = _OPEN[0]
    if ACTIVE.state is None:
        raise SimulationError(
            f"another thread simulates {outer.names()}: PyTorch's devices are the same for all threads"
        )
    if list(outer.devices) != wanted:
        inner = ", ".join(map(str, wanted))
        raise SimulationError(
            f"simulate inside simulate: the outer one has {outer.names()}, the inner one wants {inner}; "
            "leave the outer one first, or name all devices in it"
        )
    there = next(iter(outer.devices.values())).memory
    if memory is not None and not (there.is_limited and there.total == memory):
        raise SimulationError(
            f"simulate inside simulate: the inner one wants {memory} bytes, the outer one has "
            f"{there.total if there.is_limited else 'no limit'}; give memory= to the outer one"
        )
    with outer.ledger.span() as ledger:
        yield ledger


def _parse_devices(names: tuple[str, ...]) -> list[torch.device]:
    if not names:
        raise SimulationError(
            'simulate() needs a device: simulate("cuda"), simulate("mps"), simulate("cuda", "mps"); '
            f"or name it in the environment, {processes.VARIABLE}=cuda"
        )
    devices: dict[torch.device, None] = {}
    for name in names:
        kind, _, index = str(name).partition(":")
        if kind not in KINDS:
            raise SimulationError(f"cannot simulate {name!r}: {_hint(kind)}")
        if index and (not index.isdecimal() or (kind == "mps" and int(index)) or int(index) > 63):
            expected = "of 0" if kind == "mps" else "0 to 63"
            raise SimulationError(f"cannot simulate {name!r}: expected an index {expected}")
        devices |= dict.fromkeys(torch.device(kind, number) for number in range(int(index or 0) + 1))
    return list(devices)


def _hint(kind: str) -> str:
    if kind == "cpu":
        return "the CPU is always there"
    near = _NICKNAMES.get(kind.lower()) or nearest_word(kind.lower(), KINDS)
    return (f"did you mean {near!r}? " if near else "") + f"Known are {' and '.join(map(repr, KINDS))}"


def _refuse_real(wanted: list[torch.device]) -> None:
    is_available = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}
    for kind in dict.fromkeys(device.type for device in wanted):
        if is_available[kind]():
            raise SimulationError(
                f"this machine has a real {kind}: run on it, or pass simulate({kind!r}, even_if_real=True)"
            )
