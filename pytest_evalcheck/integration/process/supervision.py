"""The process of pytest does not run cells: it supervises a forked process that does.

A cell that hangs in compiled code, catches every error, ends its process or crashes costs this cell. The items after
it run in a new process. The worker of pytest-xdist supervises in the same way.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import select
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from pytest_evalcheck.expectations.failures import TargetError
from pytest_evalcheck.integration.item_cells import attach, runner_of
from pytest_evalcheck.integration.process import run_in_child
from pytest_evalcheck.integration.process.child import CLOSED, flush, packed, serve, unpacked
from pytest_evalcheck.integration.process.watchdog import grace, watch
from pytest_evalcheck.kinds.common.calling import relative
from pytest_evalcheck.kinds.common.forked_process import leave

_POLL = 0.1
_PROBE = 3.0
_PRELOADED = ("torch", "torch.utils._device", "numpy.random", "hypothesis.internal.conjecture.optimiser")
"""Every cell needs them: they are imported once, and not in each process."""
_FAREWELL = 5.0
"""Seconds for the teardown of fixtures when the session ends early."""


def obstacle(config: pytest.Config, items: list[pytest.Item], way: str) -> str:
    """Why cells run in the process of pytest; empty when another process can run them."""
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


class Supervision:
    """The hooks of a session whose items run in supervised processes."""

    def __init__(self, session: Any) -> None:
        self.evalcheck = session
        self.obstacle: str | None = None
        self._way: str = session.options.run.way
        self._process: SupervisedProcess | None = None
        self._index: dict[pytest.Item, int] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[None]:
        """A module that ends the process while it is imported is an error of this module."""

        def error(status: int) -> BaseException:
            return RuntimeError(f"os._exit({status!r}) was called while targets were collected")

        with run_in_child.exits(error):
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Let the supervised process run the item, and report here what it reports."""
        if self.obstacle is None:
            with _signals_of_others_wait():  # what is prepared here takes no time from the first item
                self.obstacle = self._prepare(item)
            if self.obstacle and hasattr(item.config, "workerinput") and self._way != "in-process":
                watch()
        if self.obstacle or run_in_child.supervised:
            return None
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        with _signals_of_others_wait():
            self._run(item, nextitem)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _prepare(self, item: pytest.Item) -> str:
        """What all processes share; returns why there is none."""
        found = obstacle(item.config, item.session.items, self._way)
        self._index = {each: index for index, each in enumerate(item.session.items)}
        if found:
            return found
        for name in _PRELOADED:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        SupervisedProcess.one_thread = not _threads_survive_a_fork()
        if any("tmp_path_factory" in getattr(each, "fixturenames", ()) for each in self._index):
            item.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        return ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Let the fixtures that are still set up be torn down."""
        if self._process is not None and not run_in_child.supervised:
            self._process.end(_FAREWELL)
            self._process = None

    def _run(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        runner = runner_of(item)
        alone = runner is not None and (runner.spec.target.isolated or self._way == "isolated")
        if alone:
            process, nextitem = SupervisedProcess.start(item.session), None
        else:
            process = self._process = self._process or SupervisedProcess.start(item.session)
        following = None if nextitem is None else self._index[nextitem]
        run = _Run(item, process, self.evalcheck)
        try:
            go_on = run.until_it_ends(self._index[item], following)
        except BaseException:
            self._process = None
            process.end(_FAREWELL)
            raise
        if alone or not go_on:
            process.end(_FAREWELL)
            self._process = self._process if alone else None


@dataclass
class _Run:
    """One item in a supervised process."""

    item: pytest.Item
    process: SupervisedProcess
    evalcheck: Any
    seen: set[str] = field(default_factory=set)
    """The phases that were reported."""
    deadline: float | None = None
    limit: float | None = None
    attack: str = ""
    """The signal that the item sent to this process."""

    def until_it_ends(self, index: int, following: int | None) -> bool:
        """Run the item; returns whether the process can run further items."""
        self.started = time.time()
        runner = runner_of(self.item)
        usual = (runner.spec.target.timeout or runner.spec.timeout) if runner is not None else None
        self.process.command(index, following)
        while True:
            message = self.process.message(self.deadline, self.evalcheck.meanwhile)
            self._look_for_signals()
            if message is None:
                self._ended_early()
                return False
            kind, *content = message
            if kind == "done":
                return not content[0]
            if kind == "limit":
                # Where no limit is in force, code of the target may still run: the same time once more.
                self.limit = content[0] or usual
                self.deadline = self.limit and time.monotonic() + self.limit + grace(self.limit)
            elif kind == "report":
                self._report(content[0])
            elif kind == "warning":
                record_warning(self.item.config, content[0])
            elif kind == "left":
                name, text, code = content
                raise KeyboardInterrupt(text) if name == "KeyboardInterrupt" else pytest.exit.Exception(text, code)
            elif kind == "internal error":
                if runner is None:
                    raise RuntimeError(f"the process that runs the items ended in an error:\n{content[0]}")
                # A target can break its process so that pytest itself fails there, as without memory.
                self._blame("the process of the check failed", content[0].strip().splitlines()[-1], "died", content[0])
                return False
            elif kind == "teardown error":
                self._report_failed_teardown(content[0])

    def _report(self, data: dict[str, Any]) -> None:
        report = received_report(self.item.config, data)
        if report.nodeid == self.item.nodeid:
            self.seen.add(report.when)
            if self.attack and report.when == "teardown":
                report.user_properties = list(self.item.user_properties)
            if report.when == "call":
                self.deadline = None
                if self.attack:
                    self._blame("the target sent a signal to the process of pytest", self.attack, "signal")
                    return
        self.item.ihook.pytest_runtest_logreport(report=report)
        cell = self.evalcheck.cells.get(report.nodeid)
        if cell is not None and cell.outcome == "failed" and report.when == "call":
            self.evalcheck.reported.append(cell)  # for the process that goes on where this one ends

    def _ended_early(self) -> None:
        """The process hangs or is gone: that is the verdict on this item."""
        hung = self.process.hangs
        how, where = self.process.end(0.0, dump=hung), self.process.where(self._file())
        if hung:
            headline, cause = (
                f"the check did not end within {self.limit:g} seconds and could not be interrupted",
                "hang",
            )
            how = "its process was ended"
        else:
            headline, cause = "the process of the check died", "died"
        self._blame(headline, how, cause, where)
        if "teardown" not in self.seen:
            report = pytest.TestReport(
                self.item.nodeid, self.item.location, self._keywords(), "passed", None, "teardown", start=0, stop=0
            )
            self.item.ihook.pytest_runtest_logreport(report=report)

    def _blame(self, headline: str, actual: str, cause: str, detail: str = "") -> None:
        item, runner = self.item, runner_of(self.item)
        text: Any = f"{headline}: {actual}\n{detail}".strip()
        item.user_properties[:] = []
        when = "teardown" if "call" in self.seen and not self.attack else "call"
        call = pytest.CallInfo.from_call(lambda: pytest.fail(text, pytrace=False), "call")
        if runner is not None:
            expected = "it ends by itself, and leaves its process alone"
            fault = TargetError(headline, actual=actual, expected=expected, detail=detail, cause=cause)
            cell = runner.untestable(fault, time.monotonic() - (time.time() - self.started))
            attach(item, cell)
            call = pytest.CallInfo.from_call(lambda: self.evalcheck._conclude(cell), "call")
        report = pytest.TestReport.from_item_and_call(item, call)
        report.when = when  # type: ignore[assignment]
        report.start, report.stop = self.started, time.time()
        report.duration = report.stop - report.start
        report.sections += [(f"Captured {name} of the process", text) for name, text in _captured(item.config) if text]
        self.seen.add(when)
        item.ihook.pytest_runtest_logreport(report=report)

    def _report_failed_teardown(self, text: str) -> None:
        report = pytest.TestReport(
            self.item.nodeid, self.item.location, self._keywords(), "failed", text, "teardown", start=0, stop=0
        )
        self.item.ihook.pytest_runtest_logreport(report=report)

    def _keywords(self) -> dict[str, Any]:
        return dict.fromkeys(self.item.keywords, 1)

    def _file(self) -> str:
        runner = runner_of(self.item)
        return runner.spec.target.file if runner is not None else str(self.item.path)

    def _look_for_signals(self) -> None:
        for received in _waiting_signals():
            if self.process.sent(received):
                self.attack = f"it sent {signal.Signals(received.si_signo).name} to its parent"
            elif received.si_signo == signal.SIGINT:
                raise KeyboardInterrupt
            elif received.si_signo != signal.SIGALRM:  # a plugin's limit for this item; it runs in the process, too
                self.process.end(0.0)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, _OTHERS)
                os.kill(os.getpid(), received.si_signo)


class SupervisedProcess:
    """A forked process that runs items."""

    one_thread = False
    """Whether torch can use only one thread in a forked process."""

    def __init__(self, process: int, commands: int, messages: int, faults: Any) -> None:
        self.process, self.hangs = process, False
        self._commands, self._messages, self._faults = commands, messages, faults
        self._handle = _handle_of(process)
        self._buffer, self._ready = bytearray(), list[Any]()
        self._status: int | None = None
        self._fault = ""
        self._stopped = 0.0
        self._closed = False

    @classmethod
    def start(cls, session: pytest.Session) -> SupervisedProcess:
        """Fork a process that waits for items."""
        (command_reader, command_writer), (message_reader, message_writer) = os.pipe(), os.pipe()
        faults = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - until end()
        flush(session.config)
        process = _fork()
        if not process:
            os.close(command_writer)
            os.close(message_reader)
            serve(session, command_reader, message_writer, faults, cls.one_thread)
        os.close(command_reader)
        os.close(message_writer)
        return cls(process, command_writer, message_reader, faults)

    def command(self, index: int, following: int | None) -> None:
        """Name the item to run, and the one after it, which decides what is torn down."""
        with contextlib.suppress(BrokenPipeError):  # it is gone: message() says so
            os.write(self._commands, packed([index, following]))

    def message(self, deadline: float | None, meanwhile: Iterable[Callable[[], None]] = ()) -> Any:
        """The next message; None when the process is gone, or when the deadline has passed (``hangs`` is set then).

        ``meanwhile`` is called while there is none; a terminal that keeps it waiting takes no time from the cell.
        """
        while not self._ready:
            if deadline is not None and time.monotonic() - self._stopped > deadline:
                self.hangs = True
                return None
            asked = time.monotonic()
            for each in tuple(meanwhile):
                each()
            watched = [self._messages, *([self._handle] if self._handle is not None else [])]
            readable = _readable(watched, _POLL)
            late = time.monotonic() - asked - _POLL
            # This process was stopped, and the other one may have been, too.
            self._stopped += late if late > 1 else 0.0
            if self._messages in readable:
                data = os.read(self._messages, 1 << 20)
                self._buffer += data
                self._ready += unpacked(self._buffer)
                if not data and not self._ready:
                    self._wait(2.0)
                    self._closed = self._status is None
                    return None
            elif self._gone():
                return None
            if signal_waits():
                return ["signal"]
        return self._ready.pop(0)

    def sent(self, received: Any) -> bool:
        """Whether this process, or one of its group, sent a signal."""
        try:
            return bool(received.si_pid == self.process or os.getpgid(received.si_pid) == self.process)
        except (ProcessLookupError, PermissionError):
            return False

    def end(self, patience: float, *, dump: bool = False) -> str:
        """End the process, after its teardown where there is time, and everything that it has started."""
        with contextlib.suppress(OSError):
            os.close(self._commands)
        if self._status is None and dump:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGABRT)  # faulthandler writes where it is
            self._wait(0.5)
        if self._status is None and patience:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGINT) if sys.exc_info()[0] is KeyboardInterrupt else None
            self._wait(patience)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process, signal.SIGKILL)
        self._wait(None)
        for descriptor in (self._messages, self._handle):
            with contextlib.suppress(OSError, TypeError):
                os.close(descriptor)  # type: ignore[arg-type]
        self._handle = None
        with contextlib.suppress(OSError, ValueError):
            self._faults.seek(0)
            self._fault = self._faults.read()
        self._faults.close()
        return _ending(CLOSED << 8 if self._closed else self._status)

    def where(self, file: str) -> str:
        """The line of ``file`` at which the process was when it crashed or was ended; empty where it is not known."""
        frames = re.findall(r'File "([^"]*)", line (\d+) in (\S+)', self._fault)
        for name, line, function in [*(frame for frame in frames if frame[0] == file), *frames][:1]:
            return f"It was at {relative(name)}:{line} in {function}."
        return ""

    def _gone(self) -> bool:
        if self._status is None:
            try:
                found, status = os.waitpid(self.process, os.WNOHANG)
            except ChildProcessError:  # SIGCHLD is ignored, or somebody else waited for it
                found, status = self.process, 0
            self._status = status if found else None
        return self._status is not None

    def _wait(self, seconds: float | None) -> None:
        until = None if seconds is None else time.monotonic() + seconds
        while not self._gone() and (until is None or time.monotonic() < until):
            _readable([self._handle] if self._handle is not None else [], 0.02)
            self._drain()

    def _drain(self) -> None:
        # A process that has more to say than a pipe holds would wait for ever.
        with contextlib.suppress(OSError):
            while _readable([self._messages], 0) and (data := os.read(self._messages, 1 << 20)):
                self._buffer += data


_OTHERS = (
    {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM}
    if hasattr(signal, "sigtimedwait")
    else set()
)
"""Signals that wait while a cell runs, so that it is known who sent them."""


@contextlib.contextmanager
def _signals_of_others_wait() -> Iterator[None]:
    if not _OTHERS:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OTHERS)
    # Another thread, such as one of OpenBLAS, takes the alarm of a plugin. The process of the item has its own.
    alarm = signal.signal(signal.SIGALRM, _take_no_notice)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL if alarm is None else alarm)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _take_no_notice(number: int, frame: Any) -> None:
    """A handler that does nothing; an alarm that is ignored would be ignored in new processes, too."""


def signal_waits() -> bool:
    """Whether a signal waits to be looked at."""
    return bool(_OTHERS and signal.sigpending() & _OTHERS)


def _waiting_signals() -> Iterator[Any]:
    while _OTHERS and (received := signal.sigtimedwait(_OTHERS, 0)) is not None:
        yield received


def _readable(descriptors: list[int], seconds: float) -> list[int]:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(seconds * 1000)]


def _handle_of(process: int) -> int | None:
    try:
        return os.pidfd_open(process)  # type: ignore[attr-defined,unused-ignore]
    except (AttributeError, OSError):
        return None


def _fork() -> int:
    with warnings.catch_warnings():
        # Other threads, such as the one of xdist, hold no lock that the new process needs.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _threads_survive_a_fork() -> bool:
    """Whether torch can compute with several threads in a forked process.

    The threads of GNU's OpenMP are gone there. Where this process has used them, the next use would wait for ever.
    """
    torch = sys.modules["torch"]
    if torch.get_num_threads() == 1:
        return True
    process = _fork()
    if not process:
        try:
            torch.ones(1 << 17).add_(1).sum()
        finally:
            leave(0)
    until = time.monotonic() + _PROBE
    while time.monotonic() < until:
        if os.waitpid(process, os.WNOHANG)[0]:
            return True
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return False


def _ending(status: int | None) -> str:
    code = 0 if status is None else os.waitstatus_to_exitcode(status)
    if code == CLOSED:
        return "it closed the file descriptors of its process"
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"exit code {code}, before the check had ended"


def _captured(config: pytest.Config) -> list[tuple[str, str]]:
    """What the process printed before it died, taken out of the files that it shares with this one."""
    manager = config.pluginmanager.getplugin("capturemanager")
    try:
        return list(zip(("stdout", "stderr"), manager.read_global_capture(), strict=True))
    except Exception:  # nothing is captured with -s
        return []


def received_report(config: pytest.Config, data: dict[str, Any]) -> Any:
    """The report that another process sent as JSON."""
    report = config.hook.pytest_report_from_serializable(config=config, data=data)
    # JSON knows no tuples.
    report.location, report.sections = tuple(report.location), [(name, text) for name, text in report.sections]
    report.user_properties = [(name, value) for name, value in report.user_properties]
    if isinstance(report.longrepr, list):  # of a skip: pytest folds tuples alone
        report.longrepr = tuple(report.longrepr)
    return report


def record_warning(config: pytest.Config, data: dict[str, Any]) -> None:
    """Record the warning that another process sent as JSON."""
    try:
        category: Any = getattr(importlib.import_module(data["module"]), data["category"])
        message = category(data["message"])
    except Exception:  # a category that is defined in a function, or takes other arguments
        category, message = UserWarning, UserWarning(f"{data['category']}: {data['message']}")
    recorded = warnings.WarningMessage(message, category, data["filename"], data["lineno"])
    location = tuple(data["location"]) if data["location"] else None
    config.hook.pytest_warning_recorded.call_historic(
        kwargs={
            "warning_message": recorded,
            "when": data["when"],
            "nodeid": data["nodeid"],
            "location": location,
        }
    )
