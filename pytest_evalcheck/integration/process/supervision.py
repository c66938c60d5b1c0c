"""The process of pytest does not run cells: it supervises a process that does.

A cell that hangs in compiled code, catches every error, ends its process or crashes costs this cell. The items after
it run in a new process. The worker of pytest-xdist supervises in the same way.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_evalcheck.engine import timeout
from pytest_evalcheck.engine.cell_spec import USUAL_SECONDS
from pytest_evalcheck.integration.item_cells import runner_of
from pytest_evalcheck.integration.process import run_in_child
from pytest_evalcheck.integration.process.processes import KILLED, OTHERS, Child, fork, grace, threads_survive_a_fork
from pytest_evalcheck.integration.process.replay import Replay
from pytest_evalcheck.integration.process.spawned import RefusedError, described_run, spawn_pytest
from pytest_evalcheck.targets import device_spec

_PRELOADED = ("torch", "torch.utils._device", "numpy.random", "hypothesis.internal.conjecture.optimiser")
"""Every cell needs them: they are imported once, and not in each process."""
_GRACE = 30.0
"""Seconds that a new process may take beyond the limit of its cell: it imports torch and the target first."""
_FAREWELL = 5.0
"""Seconds for the teardown of fixtures when the session ends early."""


def fork_obstacle(config: pytest.Config, items: list[pytest.Item], way: str) -> str:
    """Return why cells run in the process of pytest; empty when a fork of it can run them."""
    option = config.option
    if way == "in-process":
        return "--evalcheck-run=in-process"
    if not hasattr(os, "fork") or sys.platform == "darwin":
        return "processes cannot be forked safely here"
    if threading.current_thread() is not threading.main_thread():
        return "pytest does not run in the main thread"
    if getattr(option, "usepdb", False) or getattr(option, "trace", False):
        return "a debugger was asked for"
    if config.pluginmanager.hasplugin("_cov"):
        return "pytest-cov measures this process"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "CUDA was initialised while targets were collected, and it does not survive a fork"
    for item in items:
        runner = runner_of(item)
        if runner is not None and not runner.spec.device.startswith(("cpu", "sim:")):
            return f"the device {runner.spec.device} does not survive a fork"
    return ""


def _end_where_a_cell_hangs() -> None:
    """End this worker of xdist where a cell passes its limit; xdist reports it and starts another worker.

    A thread of faulthandler does it. It needs no lock of Python, which compiled code may hold.
    """
    file = tempfile.TemporaryFile()  # noqa: SIM115 - open until this process ends

    def announced(seconds: float | None) -> None:
        faulthandler.cancel_dump_traceback_later()
        if seconds is not None:
            faulthandler.dump_traceback_later(min(seconds + grace(seconds), 1e6), exit=True, file=file)

    timeout.watchers.append(announced)


class Supervision:
    """The hooks of a session whose items run in supervised processes."""

    def __init__(self, session: Any) -> None:
        self.evalcheck = session
        self.obstacle: str | None = None
        """The reason to run cells in this process; empty where there is none, None until the first item."""
        self._way: str = session.options.run.way
        self._child: Child | None = None
        self._one_thread = False
        self._index: dict[pytest.Item, int] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[None]:
        """Report a module that ends the process while it is imported as an error of this module."""

        def error(status: int) -> BaseException:
            return RuntimeError(f"os._exit({status!r}) was called while targets were collected")

        with run_in_child.exits(error):
            return (yield)

    def pytest_collection_finish(self) -> None:
        """Prepare again where items come while others have run: the process knows those alone that were there."""
        self.obstacle = None
        self.pytest_sessionfinish()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Let another process run the item, and report here what it reports."""
        if run_in_child.supervised:
            return None
        if self.obstacle is None:
            with _signals_of_others_wait():  # what is prepared here takes no time from the first item
                self.obstacle = self._prepare(item)
            if self.obstacle and hasattr(item.config, "workerinput") and self._way != "in-process":
                _end_where_a_cell_hangs()
        runner = runner_of(item)
        # A GPU that a check has lost is lost for this process, and so are its random numbers for checks on the CPU.
        alone = runner is not None and (runner.spec.target.isolated or self._way == "isolated" or device_spec.lost())
        if self.obstacle and not alone:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        replay = Replay(self.evalcheck, item)
        with _signals_of_others_wait():
            self._run(replay, None if alone else nextitem, alone=alone)
        if self.obstacle:  # the item before this one left set up what this one would have needed
            try:
                item.session._setupstate.teardown_exact(nextitem)
            except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                replay.add("teardown error", f"{type(error).__name__}: {error}")
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Let the fixtures that are still set up be torn down."""
        if self._child is not None and not run_in_child.supervised:
            self._child.end(_FAREWELL)
            self._child = None

    def _prepare(self, item: pytest.Item) -> str:
        """Prepare what all processes share; return why there are none."""
        found = fork_obstacle(item.config, item.session.items, self._way)
        self._index = {each: index for index, each in enumerate(item.session.items)}
        if found:
            return found
        for name in _PRELOADED:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        self._one_thread = not threads_survive_a_fork()
        if any("tmp_path_factory" in getattr(each, "fixturenames", ()) for each in self._index):
            item.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        return ""

    def _run(self, replay: Replay, nextitem: pytest.Item | None, *, alone: bool) -> None:
        item = replay.item
        if self.obstacle:
            try:
                child = self._spawn(item)
            except RefusedError as error:
                replay.blame("the process of the check could not be started", error.text, "died")
                replay.end()
                return
        elif alone or self._child is None:
            child = fork(item.session, one_thread=self._one_thread)
        else:
            child = self._child
        self._child = self._child if alone else child
        name, following = self._index[item], None if nextitem is None else self._index[nextitem]
        try:
            go_on = self._replay(replay, child, item.nodeid if self.obstacle else name, following)
        except BaseException:
            self._child = None
            child.end(_FAREWELL)
            raise
        if alone or not go_on:
            child.end(_FAREWELL)
            self._child = self._child if alone else None

    def _spawn(self, item: pytest.Item) -> Child:
        config, options = item.config, self.evalcheck.options
        rest = item.nodeid.partition("::")[2]
        arguments: list[Any] = [
            "-p",
            "pytest_evalcheck",
            "--evalcheck",
            f"{item.path}::{rest}",
            "--evalcheck-since=",
        ]
        arguments += [f"--evalcheck-target={text}" for text in config.getoption("evalcheck_target") or ()]
        arguments += ["--rootdir", config.rootpath, *([] if config.inipath is None else ["-c", config.inipath])]
        arguments += ["-m", config.option.markexpr] if config.option.markexpr else []
        arguments += [f"--evalcheck-effort={options.effort_name}", f"--evalcheck-device={','.join(options.devices)}"]
        arguments += [] if options.timeout is None else [f"--evalcheck-timeout={options.timeout}"]
        arguments += [f"--evalcheck-fail-on={options.fail_on}"] if options.fail_on else []
        flags = ("patched", "strict-versions")
        arguments += [
            f"--evalcheck-{name}" for name in flags if config.getoption(f"evalcheck_{name.replace('-', '_')}")
        ]
        arguments += [f"--evalcheck-{name}" for name in ("accept", "prune") if getattr(options, name)]
        replay = config.getoption("evalcheck_replay")
        arguments += [f"--evalcheck-replay={replay}"] if replay else []
        run = described_run(self.evalcheck, config, [item.nodeid], arguments)
        limit = _limit(item)
        return spawn_pytest(run, supervised=True, patience=limit and limit + _GRACE)

    def _replay(self, replay: Replay, child: Child, name: Any, following: Any) -> bool:
        """Run the item and report it; return whether the process can run further items."""
        child.run(name, following, _limit(replay.item))
        while True:
            # Where this process runs cells itself, another one looks for those that stall.
            message = child.message(() if self.obstacle else self.evalcheck.meanwhile)
            self._look_for_signals(replay, child)
            if message is None:
                self._blame(replay, child)
                return False
            if message[0] == "done":
                return not message[1]
            if message[0] == "report" and message[1]["when"] == "call":
                child.deadline = None
            replay.add(*message)
            if message[0] == "internal error":
                return False

    def _blame(self, replay: Replay, child: Child) -> None:
        """Report that the process hangs or is gone: that is the verdict on this item."""
        how, runner = child.end(0.0, dump=child.hangs), replay.runner
        where = child.line_in(runner.spec.target.file if runner is not None else str(replay.item.path))
        if child.hangs:
            headline = f"the check did not end within {child.limit:g} seconds and could not be interrupted"
            replay.blame(headline, "its process was ended", "hang", where)
        else:
            replay.blame("the process of the check died", how, "killed" if how == KILLED else "died", where)
        replay.end()

    def _look_for_signals(self, replay: Replay, child: Child) -> None:
        while OTHERS and (received := signal.sigtimedwait(OTHERS, 0)) is not None:
            if child.sent(received):
                replay.attack = f"it sent {signal.Signals(received.si_signo).name} to its parent"
            elif received.si_signo == signal.SIGINT:
                raise KeyboardInterrupt
            elif received.si_signo != signal.SIGALRM:  # a plugin's limit for this item; it runs in the process, too
                child.end(0.0)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, OTHERS)
                os.kill(os.getpid(), received.si_signo)


def _limit(item: pytest.Item) -> float | None:
    runner = runner_of(item)
    given = 0 if runner is None else runner.spec.given_limit
    return USUAL_SECONDS if given is None else given or None


@contextlib.contextmanager
def _signals_of_others_wait() -> Iterator[None]:
    if not OTHERS or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, OTHERS)
    # Another thread, such as one of OpenBLAS, takes the alarm of a plugin. The process of the item has its own.
    alarm = signal.signal(signal.SIGALRM, _take_no_notice)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL if alarm is None else alarm)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _take_no_notice(number: int, frame: Any) -> None:
    """Do nothing at an alarm; one that is ignored would be ignored in new processes, too."""
