"""Threads that a simulation starts belong to it: PyTorch's modes hold for one thread only."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from pytest_evalcheck.devices.modes.function_mode import ACTIVE, SimulationFunctionMode
from pytest_evalcheck.devices.patches.patches import Patches


def install(patches: Patches) -> None:
    """Patch the start of threads, and the submission of work to those that run already."""
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    def start_inside(thread: threading.Thread) -> None:
        mode: SimulationFunctionMode | None = getattr(ACTIVE, "function", None)
        if mode is not None:
            run = thread.run

            def run_inside() -> None:
                del thread.run
                with mode.simulation.entered():
                    run()

            thread.run = run_inside  # type: ignore[method-assign]
        start(thread)

    def submit_inside(pool: ThreadPoolExecutor, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        mode: SimulationFunctionMode | None = getattr(ACTIVE, "function", None)
        if mode is None:
            return submit(pool, fn, *args, **kwargs)

        def inside(*args: Any, **kwargs: Any) -> Any:
            if getattr(ACTIVE, "function", None) is not None:
                return fn(*args, **kwargs)
            with mode.simulation.entered():
                return fn(*args, **kwargs)

        return submit(pool, inside, *args, **kwargs)

    patches.set(threading.Thread, "start", start_inside)
    patches.set(ThreadPoolExecutor, "submit", submit_inside)
