"""Processes that run items for this one: a fork of it, or a new one."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from pytest_evalcheck.integration.process.child import CLOSED, flush, run_forked
from pytest_evalcheck.integration.process.messages import Channel
from pytest_evalcheck.kinds.common.calling import relative
from pytest_evalcheck.kinds.common.forked_process import leave

_POLL = 0.1
_PROBE = 3.0
_MOST_LINES = 15
KILLED = "killed by SIGKILL"
"""End of a process that a system without memory or CPU time has ended, or another process."""
_START = "import os; fds = os.dup(0), os.dup(1); os.dup2(2, 1); from {module} import main; main(*fds)"
"""The program of a new process: what libraries print is no message."""


def grace(limit: float) -> float:
    """Return the seconds that a cell may take beyond its limit before its process is ended: half of it, 2 to 30."""
    return min(30.0, max(2.0, limit * 0.5))


class Child:
    """A process that this one has started, and its messages."""

    def __init__(self, pid: int, poll: Callable[[], int | None], channel: Channel, output: Any) -> None:
        self.pid, self.channel = pid, channel
        self.hangs = False
        self.limit: float | None = None
        """Seconds that a cell may take: it announces them."""
        self.deadline: float | None = None
        self._poll, self._output = poll, output
        self.code: int | None = None
        """The exit code, negative for a signal."""
        self._closed = False
        self._handle = _handle_of(pid)
        self._stopped = 0.0
        self._usual: float | None = None
        self.printed = ""
        """The last lines that it has printed, once it has ended."""

    def run(self, name: Any, following: Any, usual: float | None = None) -> None:
        """Name the item to run, and the one after it; ``usual`` is the limit where the cell announces none."""
        self.limit = self.deadline = None
        self._usual = usual
        self.send(name, following)

    def send(self, *message: Any) -> None:
        """Send a message; `message` tells where the process is gone."""
        with contextlib.suppress(OSError):
            self.channel.send(*message)

    def message(self, meanwhile: Iterable[Callable[[], None]] = ()) -> Any:
        """Return the next message; None when the process is gone, or has passed its limit (``hangs`` is set then).

        ``meanwhile`` is called while there is none; a terminal that keeps it waiting takes no time from the cell.
        """
        while True:
            while not self.channel.received:
                if self.deadline is not None and time.monotonic() - self._stopped > self.deadline:
                    self.hangs = True
                    return None
                asked = time.monotonic()
                for each in tuple(meanwhile):
                    each()
                readable = _readable(
                    [self.channel.reader, *([self._handle] if self._handle is not None else [])], _POLL
                )
                late = time.monotonic() - asked - _POLL
                # This process was stopped, and the other one may have been, too.
                self._stopped += late if late > 1 else 0.0
                if self.channel.reader in readable:
                    try:
                        self.channel.read()
                    except (EOFError, OSError):
                        self._wait(2.0)
                        self._closed = self.code is None
                        return None
                elif self.gone:
                    return None
                if signal_waits():
                    return ["signal"]
            message = self.channel.received.pop(0)
            if message[0] != "limit":
                return message
            # Where no limit is in force, code of the target may still run: the same time once more.
            self.limit = message[1] or self._usual
            self.deadline = self.limit and time.monotonic() + self.limit + grace(self.limit)

    @property
    def gone(self) -> bool:
        """True when the process has ended."""
        if self.code is None:
            self.code = self._poll()
        return self.code is not None

    def leave(self) -> None:
        """Let the process end when it has done what it was asked for."""
        self.channel.close(self.channel.writer)

    def sent(self, received: Any) -> bool:
        """Return whether this process, or one of its group, sent a signal."""
        try:
            return bool(received.si_pid == self.pid or os.getpgid(received.si_pid) == self.pid)
        except (ProcessLookupError, PermissionError):
            return False

    def end(self, patience: float, *, dump: bool = False) -> str:
        """End the process, after its teardown where there is time, and all that it has started; return how it ended."""
        if self._output.closed:
            return self._ending
        self.leave()
        if not self.gone and dump:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGABRT)  # faulthandler writes where it is
            self._wait(0.5)
        if not self.gone and patience:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGINT) if sys.exc_info()[0] is KeyboardInterrupt else None
            self._wait(patience)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL) if hasattr(os, "killpg") else os.kill(self.pid, signal.SIGTERM)
        self._wait(None)
        self.channel.close()
        with contextlib.suppress(OSError, ValueError, TypeError):
            os.close(self._handle)  # type: ignore[arg-type]
        with contextlib.suppress(OSError, ValueError):
            self._output.seek(0)
            self.printed = self._output.read().strip()
        self._output.close()
        return self._ending

    def line_in(self, file: str) -> str:
        """Return the line of ``file`` at which the process crashed or was ended; empty where it is not known."""
        frames = re.findall(r'File "([^"]*)", line (\d+) in (\S+)', self.printed)
        for name, line, function in [*(frame for frame in frames if frame[0] == file), *frames][:1]:
            return f"It was at {relative(name)}:{line} in {function}."
        return ""

    @property
    def last_lines(self) -> str:
        """The end of what the process has printed."""
        return "\n".join(self.printed.splitlines()[-_MOST_LINES:])

    @property
    def _ending(self) -> str:
        code = self.code or 0
        if self._closed or code == CLOSED:
            return "it closed the file descriptors of its process"
        if code < 0:
            try:
                return f"killed by {signal.Signals(-code).name}"
            except ValueError:
                return f"killed by signal {-code}"
        return f"exit code {code}, before the check had ended"

    def _wait(self, seconds: float | None) -> None:
        until = None if seconds is None else time.monotonic() + seconds
        while not self.gone and (until is None or time.monotonic() < until):
            _readable([self._handle] if self._handle is not None else [], 0.02)
            # A process that has more to say than a pipe holds would wait for ever.
            with contextlib.suppress(OSError, EOFError):
                while _readable([self.channel.reader], 0):
                    self.channel.read()


def fork(session: pytest.Session, *, one_thread: bool) -> Child:
    """Fork a process that runs the items of a session."""
    (command_reader, command_writer), (message_reader, message_writer) = os.pipe(), os.pipe()
    faults = _output()
    flush(session.config)
    pid = _fork()
    if not pid:
        os.close(command_writer)
        os.close(message_reader)
        run_forked(session, Channel(command_reader, message_writer), faults, one_thread)
    os.close(command_reader)
    os.close(message_writer)
    return Child(pid, lambda: _exit_code(pid), Channel(message_reader, command_writer), faults)


def spawn(module: str, *, folder: Any = None, environment: Mapping[str, str] | None = None) -> Child:
    """Start a process that runs ``main(reader, writer)`` of a module, with the search path of this one."""
    output, path = _output(), os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen(
        [sys.executable, "-c", _START.format(module=module)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=output,
        start_new_session=True,  # Ctrl-C is for pytest, which ends it in order
    )
    assert process.stdin is not None
    assert process.stdout is not None
    reader, writer = os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno())
    process.stdin.close()
    process.stdout.close()
    return Child(process.pid, process.poll, Channel(reader, writer), output)


def _output() -> Any:
    return tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")


OTHERS = (
    {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM}
    if hasattr(signal, "sigtimedwait")
    else set()
)
"""Signals that wait while a cell runs, so that it is known who sent them."""


def signal_waits() -> bool:
    """Return whether a signal waits to be looked at."""
    return bool(OTHERS and signal.sigpending() & OTHERS)


def _readable(descriptors: list[int], seconds: float) -> list[int]:
    if not hasattr(select, "poll"):  # Windows waits where it reads
        return descriptors
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(seconds * 1000)]


def _handle_of(process: int) -> int | None:
    try:
        return os.pidfd_open(process)  # type: ignore[attr-defined,unused-ignore]
    except (AttributeError, OSError):
        return None


def _exit_code(process: int) -> int | None:
    try:
        found, status = os.waitpid(process, os.WNOHANG)
    except ChildProcessError:  # SIGCHLD is ignored, or somebody else waited for it
        return 0
    return os.waitstatus_to_exitcode(status) if found else None


def _fork() -> int:
    with warnings.catch_warnings():
        # Other threads, such as the one of xdist, hold no lock that the new process needs.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def threads_survive_a_fork() -> bool:
    """Return whether torch can compute with several threads in a forked process.

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
