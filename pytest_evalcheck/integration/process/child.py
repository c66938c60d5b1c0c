"""The process that runs the items of a session, one at a time, for the process that supervises it."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import signal
import struct
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from pytest_evalcheck.engine import timeout
from pytest_evalcheck.integration.process import run_in_child
from pytest_evalcheck.kinds.common.forked_process import leave

CLOSED = 73
"""The exit code of a process whose connection to its supervisor was closed."""

_write, _read, _getpid, _encode = os.write, os.read, os.getpid, json.JSONEncoder(default=str).encode
_HEADER = struct.Struct("!Q")
_OF_REPORTS = (
    *("pytest_runtest_logstart", "pytest_runtest_logreport", "pytest_runtest_logfinish"),
    "pytest_warning_recorded",
)
_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux."""


def packed(message: Any) -> bytes:
    """A message as bytes: its length, and JSON."""
    data = _encode(message).encode()
    return _HEADER.pack(len(data)) + data


def unpacked(buffer: bytearray) -> list[Any]:
    """The complete messages at the begin of a buffer, taken out of it."""
    messages = []
    while len(buffer) >= _HEADER.size:
        (length,) = _HEADER.unpack_from(buffer)
        if len(buffer) < _HEADER.size + length:
            break
        messages.append(json.loads(bytes(buffer[_HEADER.size : _HEADER.size + length])))
        del buffer[: _HEADER.size + length]
    return messages


class Connection:
    """Sends messages to the supervisor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor, self.process = descriptor, _getpid()

    def send(self, *message: Any) -> None:
        """Send a message; a process that code under test forked ends here, and one that lost its connection, too."""
        if _getpid() != self.process:
            leave(0)
        data = packed(message)
        try:
            while data:
                data = data[_write(self.descriptor, data) :]
        except OSError:
            leave(CLOSED)


class Reporter:
    """The reports and warnings of this process go to the supervisor, and to no plugin here."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self.config, self.connection = config, connection

    def silence_others(self) -> None:
        """Take out who would report here what the supervisor reports."""
        manager = self.config.pluginmanager
        # They decide when the session stops, and what its teardown is, so that they must know here, too.
        kept = {id(manager.getplugin(name)) for name in ("session", "logging-plugin", "stepwiseplugin")}
        for name in _OF_REPORTS:
            hook = getattr(self.config.hook, name)
            for implementation in hook.get_hookimpls():
                if id(implementation.plugin) not in kept:
                    hook._remove_plugin(implementation.plugin)
        manager.register(self, "pytest_evalcheck_reporter")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a report."""
        flush(self.config)
        self.connection.send(
            "report", self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        )

    def pytest_warning_recorded(self, warning_message: Any, when: str, nodeid: str, location: Any) -> None:
        """Send a warning."""
        message = warning_message.message
        self.connection.send(
            "warning",
            {
                "module": type(message).__module__,
                "category": type(message).__qualname__,
                "message": str(message),
                "filename": warning_message.filename,
                "lineno": warning_message.lineno,
                "when": when,
                "nodeid": nodeid,
                "location": location,
            },
        )


def flush(config: pytest.Config) -> None:
    """Write out what this process has printed, so that no other one prints it again, and so that it is in order."""
    terminal = config.pluginmanager.getplugin("terminalreporter")
    for stream in (sys.stdout, sys.stderr, getattr(terminal, "_tw", None)):
        with contextlib.suppress(Exception):
            stream.flush()  # type: ignore[union-attr]


def serve(session: pytest.Session, commands: int, messages: int, faults: Any, one_thread: bool) -> NoReturn:
    """Run items as they are named, until there are no more; this process ends here.

    ``commands`` and ``messages`` are descriptors of pipes, ``faults`` is the file in which faulthandler writes, and
    with ``one_thread`` torch uses one thread.
    """
    try:
        _become_a_group_of_its_own()
        connection = Connection(messages)
        try:
            faulthandler.enable(faults, all_threads=False)
            run_in_child.supervised = True
            timeout.watchers[:] = [lambda seconds: connection.send("limit", seconds)]
            if one_thread:
                sys.modules["torch"].set_num_threads(1)
            Reporter(session.config, connection).silence_others()
            _serve(session, commands, connection)
        except BaseException as error:
            import traceback

            connection.send("internal error", "".join(traceback.format_exception(error)))
        flush(session.config)
    finally:
        leave(0)


def _serve(session: pytest.Session, commands: int, connection: Connection) -> None:
    buffer = bytearray()
    while True:
        for index, following in unpacked(buffer):
            item = session.items[index]
            _catch(lambda item=item: session._setupstate.teardown_exact(item), connection)  # type: ignore[misc]
            nextitem = session.items[following] if following is not None else None
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            except (KeyboardInterrupt, pytest.exit.Exception) as error:
                code = getattr(error, "returncode", None)
                connection.send("left", type(error).__name__, str(error), code)
            connection.send("done", run_in_child.tainted)
        data = b""
        with contextlib.suppress(KeyboardInterrupt):
            data = _read(commands, 65536)
        if not data:
            _catch(lambda: session._setupstate.teardown_exact(None), connection)
            return
        buffer += data


def _catch(teardown: Callable[[], None], connection: Connection) -> None:
    # The reports of the items whose fixtures these are have been sent.
    try:
        teardown()
    except BaseException as error:
        connection.send("teardown error", f"{type(error).__name__}: {error}")


def _become_a_group_of_its_own() -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGTERM", "SIGHUP", "SIGALRM"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
