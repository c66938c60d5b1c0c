"""Threads that are started inside a simulation belong to it: PyTorch's modes hold for one thread only."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from pytest_evalcheck.devices.modes.function_mode import enter_modes
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.state import ACTIVE


def install(patches: Patches) -> None:
    """Patch the start of threads, and the submission of work to a pool."""
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    def start_inside(thread: threading.Thread) -> None:
        state = ACTIVE.state
        if state is not None:
            run = thread.run

            def run_inside() -> None:
                del thread.run
                with enter_modes(state.simulation):
                    run()

            thread.run = run_inside  # type: ignore[method-assign]
        start(thread)

    def submit_inside(pool: ThreadPoolExecutor, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        state = ACTIVE.state
        if state is None:
            return submit(pool, fn, *args, **kwargs)

        def inside(*args: Any, **kwargs: Any) -> Any:
            if ACTIVE.state is not None:
                return fn(*args, **kwargs)
            with enter_modes(state.simulation):
                return fn(*args, **kwargs)

        return submit(pool, inside, *args, **kwargs)

    patches.set(threading.Thread, "start", start_inside)
    patches.set(ThreadPoolExecutor, "submit", submit_inside)
