"""Processes that are started inside: a spawned one has the same simulated devices, as it would have the real ones.

A forked one has none, as CUDA refuses to start again after a fork. What `subprocess` runs sees the machine as it is; it
finds the devices in the environment, where `simulate()` without devices and `python -m pytest_evalcheck.devices` read
them.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.state import Simulation

VARIABLE = "EVALCHECK_SIMULATE"


class InSimulation:
    """The `run` of a process, in a simulation of its own. It is pickled with the process."""

    def __init__(self, process: BaseProcess, enter: Callable[..., Any], names: tuple[str, ...], options: Any) -> None:
        self.process, self.run = process, vars(process).get("run")
        self.enter, self.names, self.options = enter, names, options

    def __call__(self) -> None:
        with self.enter(*self.names, **self.options):
            if self.run is None:
                type(self.process).run(self.process)
            else:
                self.run()


def install(patches: Patches, simulation: Simulation, enter: Callable[..., Any], options: dict[str, Any]) -> None:
    """Patch the start of processes, and name the devices in the environment. `enter` and its options are `simulate`."""
    start, names = BaseProcess.start, tuple(map(str, simulation.devices))

    def start_inside(process: BaseProcess) -> None:
        if simulation.forked or not _is_new(process):
            return start(process)
        before = vars(process).get("run")
        process.run = InSimulation(process, enter, names, options)  # type: ignore[method-assign]
        try:
            return start(process)
        finally:
            del process.run
            if before is not None:
                process.run = before  # type: ignore[method-assign]

    patches.set(BaseProcess, "start", start_inside)
    previous = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = ",".join(names)
    patches.on_undo(lambda: _restore(previous))


def _is_new(process: BaseProcess) -> bool:
    """Return whether the process starts with a new interpreter, which gets a pickled copy of the object."""
    method = getattr(process, "_start_method", None) or multiprocessing.get_start_method()
    return method in ("spawn", "forkserver")


def _restore(previous: str | None) -> None:
    if previous is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = previous


def named_in_the_environment() -> tuple[str, ...]:
    """The devices of the environment variable, if it is set."""
    return tuple(name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip())
