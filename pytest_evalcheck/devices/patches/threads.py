"""Threads that are started inside a simulation belong to it: PyTorch's modes hold for one thread only."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

from pytest_evalcheck.devices.modes.function_mode import enter_modes
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.state import ACTIVE


def install(patches: Patches) -> None:
    """Patch the start of threads, and the submission of work to a pool."""
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    def start_inside(thread: threading.Thread) -> None:
        if ACTIVE.state is not None:
            thread.run = run_in_simulation(thread.run)  # type: ignore[method-assign]
        start(thread)

    def submit_inside(pool: ThreadPoolExecutor, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        return submit(pool, fn if ACTIVE.state is None else run_in_simulation(fn), *args, **kwargs)

    patches.set(threading.Thread, "start", start_inside)
    patches.set(ThreadPoolExecutor, "submit", submit_inside)


def run_in_simulation(function: Any) -> Any:
    """The same function, run in the simulation of the thread that asks now."""
    state: Any = ACTIVE.state

    def run(*args: Any, **kwargs: Any) -> Any:
        with enter_modes(state.simulation) if ACTIVE.state is None else nullcontext():
            return function(*args, **kwargs)

    return run
