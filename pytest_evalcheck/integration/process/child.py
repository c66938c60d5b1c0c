"""A process that runs items, one at a time, for the process that started it.

It is a fork of that process (`run_forked`), or a pytest of its own that has collected the same items
(`pytest_evalcheck.integration.process.spawned`). Both send the same messages.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import pytest

from pytest_evalcheck.engine import timeout
from pytest_evalcheck.integration.process import run_in_child
from pytest_evalcheck.integration.process.messages import Channel
from pytest_evalcheck.kinds.common.forked_process import leave

CLOSED = 73
"""The exit code of a process whose connection to its parent was closed."""

_getpid = os.getpid
_OF_REPORTS = (
    *("pytest_runtest_logstart", "pytest_runtest_logreport", "pytest_runtest_logfinish"),
    "pytest_warning_recorded",
)
_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux."""


class Reporter:
    """The plugin that sends reports and warnings of this process to its parent."""

    def __init__(self, config: pytest.Config, channel: Channel) -> None:
        self.config, self.channel, self._process = config, channel, _getpid()

    def send(self, *message: Any) -> None:
        """Send a message. A process that code under test forked ends here, and one that lost its connection, too."""
        if _getpid() != self._process:
            leave(0)
        try:
            self.channel.send(*message)
        except OSError:
            leave(CLOSED)

    def replace_others(self) -> None:
        """Take out the plugins that would report here what the parent reports."""
        manager = self.config.pluginmanager
        # They decide when the session stops, and what its teardown is, so that they must know here, too.
        kept = {id(manager.getplugin(name)) for name in ("session", "logging-plugin", "stepwiseplugin")}
        for name in _OF_REPORTS:
            hook = getattr(self.config.hook, name)
            for implementation in hook.get_hookimpls():
                if id(implementation.plugin) not in kept:
                    hook._remove_plugin(implementation.plugin)
        manager.register(self, "pytest_evalcheck_reporter")

    def supervise(self) -> None:
        """Announce the limits of cells to the parent, which blames a cell for what happens to this process."""
        run_in_child.supervised = True
        timeout.watchers[:] = [lambda seconds: self.send("limit", seconds)]

    def run_items(self, session: pytest.Session, items: Mapping[Any, pytest.Item], commands: Iterator[Any]) -> None:
        """Run the items that commands name, each with the one after it, which decides what is torn down."""
        try:
            for name, following in commands:
                item = items[name]
                self._tear_down(session, item)
                try:
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=items.get(following))
                except (KeyboardInterrupt, pytest.exit.Exception) as error:
                    self.send("left", type(error).__name__, str(error), getattr(error, "returncode", None))
                self.send("done", run_in_child.tainted)
            self._tear_down(session, None)
        except BaseException as error:
            self.send("internal error", "".join(traceback.format_exception(error)))

    def _tear_down(self, session: pytest.Session, item: pytest.Item | None) -> None:
        # The reports of the items whose fixtures these are have been sent.
        try:
            session._setupstate.teardown_exact(item)
        except BaseException as error:
            self.send("teardown error", f"{type(error).__name__}: {error}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a report."""
        flush(self.config)
        self.send("report", self.config.hook.pytest_report_to_serializable(config=self.config, report=report))

    def pytest_warning_recorded(self, warning_message: Any, when: str, nodeid: str, location: Any) -> None:
        """Send a warning."""
        message = warning_message.message
        self.send(
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


def run_forked(session: pytest.Session, channel: Channel, faults: Any, one_thread: bool) -> NoReturn:
    """Run items of a session in a fork of its process, until there are no more; this process ends here.

    ``faults`` is the file in which faulthandler writes. With ``one_thread`` torch uses one thread.
    """
    try:
        _become_a_group_of_its_own()
        faulthandler.enable(faults, all_threads=False)
        if one_thread:
            sys.modules["torch"].set_num_threads(1)
        reporter = Reporter(session.config, channel)
        reporter.supervise()
        reporter.replace_others()
        reporter.run_items(session, dict(enumerate(session.items)), _commands(channel))
        flush(session.config)
    finally:
        leave(0)


def _commands(channel: Channel) -> Iterator[Any]:
    while True:
        command = None
        with contextlib.suppress(KeyboardInterrupt):
            try:
                command = channel.receive()
            except EOFError:
                return
        if command is not None:
            yield command


def _become_a_group_of_its_own() -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGTERM", "SIGHUP", "SIGALRM"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
