"""One cell in this process: whatever its code does to the process is the verdict of this cell alone."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from pytest_evalcheck.engine import timeout
from pytest_evalcheck.engine.cell_state import left_changed
from pytest_evalcheck.engine.runner import CellRunner
from pytest_evalcheck.expectations.failures import TargetError
from pytest_evalcheck.integration.process.guard import ProcessGuard
from pytest_evalcheck.kinds.common.calling import format_exception_location
from pytest_evalcheck.kinds.common.forked_process import ForkWatch, leave
from pytest_evalcheck.reports.results import Cell

supervised = False
"""True in a process that another one supervises: see `pytest_evalcheck.integration.process.supervision`."""
tainted = False
"""True once a cell has left this process in a state that may change other verdicts."""


def run_cell(runner: CellRunner, arguments: Mapping[str, Any]) -> Cell:
    """Run the cell with these arguments of its factory.

    Interrupts, exits, forks and changes of the process become its verdict.

    Raises:
        KeyboardInterrupt: when the user interrupts the session in this process.
    """
    global tainted
    file, started = runner.spec.target.file, time.monotonic()
    guard, forks, cell, error = ProcessGuard(file), ForkWatch(), None, None
    interrupted = False
    for watch in timeout.watchers:  # code of the target may run before the limit of its cell starts
        watch(None)
    try:
        with _interrupts() as interrupts, exits():
            cell = runner.run(arguments)
    except BaseException as raised:
        error = raised
        interrupted = bool(interrupts) and not supervised
    changed = guard.restore()
    if forks.came_back():
        error = error or _Returned()
    # What was interrupted halfway, such as an import, would stay so for the next cell.
    halfway = cell is None or cell.outcome == "incomplete" or cell.cause in ("timeout", "error", "exit")
    tainted |= guard.lasting or halfway
    if interrupted and error is not None:
        raise error
    if error is not None:
        return runner.untestable(_fault(error, file), started)
    assert cell is not None
    if changed and cell.cause != "timeout":
        return runner.untestable(left_changed(changed[:5]), started)
    return cell


class _Returned(BaseException):
    """Raised where a forked process came back into the test."""


def _fault(error: BaseException, file: str) -> TargetError:
    if isinstance(error, _Returned):
        return TargetError(
            "a process that the target forked came back into the test",
            actual="os.fork() returned twice",
            expected="the new process ends by itself",
            detail="End it with os._exit() when its work is done, or use multiprocessing.",
            cause="fork",
        )
    if isinstance(error, (KeyboardInterrupt, pytest.exit.Exception)):
        return TargetError(
            "the target tried to end the session", actual=format_exception_location(error, file), cause="exit"
        )
    return TargetError("the check ended in an error", actual=format_exception_location(error, file), cause="error")


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Give a list of the signals that interrupt this block; code under test may raise without one."""
    seen: list[int] = []
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield seen
        return

    def note(number: int, frame: Any) -> None:
        seen.append(number)
        previous(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, previous)


@contextmanager
def exits(error: Callable[[int], BaseException] = SystemExit) -> Iterator[None]:
    """Turn ``os._exit`` of this process into an error: without a supervisor it ends the session with any exit code."""
    if supervised:
        yield
        return
    process = os.getpid()

    def leave_or_raise(status: int) -> None:
        if os.getpid() != process or threading.current_thread() is not threading.main_thread():
            leave(status)
        raise error(status)

    previous, os._exit = os._exit, leave_or_raise  # type: ignore[assignment]
    try:
        yield
    finally:
        os._exit = previous
