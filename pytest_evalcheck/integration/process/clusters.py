"""``--evalcheck-run=dask`` and ``--evalcheck-run=ray``: items are tasks of a cluster, and are reported here in order.

The process of pytest collects, and runs no item. A client in a process of its own (`cluster_tasks`) submits the
items; what a pytest at a worker (`serving`) reported of them is reported here in the order of one process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_evalcheck.expectations.failures import TargetError
from pytest_evalcheck.integration.choosing.resuming import Resuming, report_of_cell
from pytest_evalcheck.integration.item_cells import attach, runner_of
from pytest_evalcheck.integration.process import cluster_tasks
from pytest_evalcheck.integration.process.exit_guard import looks
from pytest_evalcheck.integration.process.serving import digest_of_ids
from pytest_evalcheck.integration.process.supervision import received_report, record_warning
from pytest_evalcheck.reports.json import versions
from pytest_evalcheck.reports.jsonl import digest

_COMPARED = ("python", "pytest-evalcheck", "pytest", "hypothesis", "torch")
_FOR_PYTEST = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "CI")
"""Variables of the environment that decide what pytest does; the others are those of the workers."""
_FAREWELL = 15.0
_MOST_IDS = 3


class Cluster:
    """The hooks of a run whose items are tasks of a cluster."""

    def __init__(self, session: Any, plugins: Sequence[Any]) -> None:
        self.evalcheck = session
        run = session.options.run
        self.library, self.address, self.workers = run.way, run.address, run.workers
        self._resumed = next((plugin for plugin in plugins if isinstance(plugin, Resuming)), None)
        self._client: _Client | None = None
        self._slots = 0
        self._results: dict[int, tuple[str, Any]] = {}
        """What was reported of items before it was their turn."""
        self._index: dict[pytest.Item, int] = {}
        self._came_back = False
        """Whether anything was reported of any item."""
        self._started: pytest.Item | None = None
        """The last item whose start was reported."""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Reach the cluster; a local one starts while targets are collected."""
        if looks(session.config):
            return
        here = versions()
        self._client = _Client()
        self._client.send(
            {
                "library": self.library,
                "address": self.address,
                "workers": self.workers,
                "versions": {name: here[name] for name in _COMPARED},
                "folder": str(session.config.invocation_params.dir),
            }
        )
        session.config.add_cleanup(self._client.end)
        if self.address:
            self._wait_until_ready()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Iterator[None]:
        """Submit the items; end what is left of them afterwards."""
        stops = session.testsfailed and not session.config.option.continue_on_collection_errors
        if self._client is None or not session.items or stops:
            return (yield)
        try:
            self._wait_until_ready()
            self._submit(session)
            result = yield
        except KeyboardInterrupt:
            self._report_early(session)
            raise
        finally:
            self._client.leave()
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool:
        """Report what a worker reported of the item."""
        index = self._index[item]
        while index not in self._results:
            # Before anything has come back, workers may still collect; then it runs, as all before it have ended.
            if self._came_back and self._started is not item:
                self._start(item)
            self._receive(item.session)
        self._report(item, *self._results.pop(index))
        return True

    def _wait_until_ready(self) -> None:
        assert self._client is not None
        if not self._slots:
            kind, *content = self._client.message()
            if kind != "ready":
                raise pytest.UsageError(f"--evalcheck-run={self.library}: {content[0]}")
            self._slots = content[0]

    def _submit(self, session: pytest.Session) -> None:
        assert self._client is not None
        config, items = session.config, session.items
        node = SimpleNamespace(config=config, workerinput={"randomly_seed": getattr(config.option, "randomly_seed", 0)})
        self.evalcheck.pytest_configure_node(node)
        root = config.rootpath
        files = {item.nodeid.partition("::")[0] for item in items}
        run = {
            "key": uuid.uuid4().hex,
            "arguments": [str(argument) for argument in config.invocation_params.args],
            "folder": str(config.invocation_params.dir),
            "path": list(sys.path),
            "environment": {name: os.environ[name] for name in _FOR_PYTEST if name in os.environ},
            "workerinput": {"workercount": self._slots, "mainargv": sys.argv, "testrunuid": "", **node.workerinput},
            "ids": digest_of_ids({item.nodeid for item in items}),
            "files": {name: digest(str(root / name)) for name in sorted(files) if Path(root / name).is_file()},
        }
        self._index = {item: index for index, item in enumerate(items)}
        following = [*(item.nodeid for item in items[1:]), None]
        self._asked = [
            index for index, item in enumerate(items) if self._resumed is None or not self._resumed.has_result(item)
        ]
        self._client.send({"run": run, "items": [(items[index].nodeid, following[index]) for index in self._asked]})

    def _receive(self, session: pytest.Session) -> None:
        """Take one message of the client; a run without a cluster ends here, with what is known so far."""
        assert self._client is not None
        kind, *content = self._client.message(self.evalcheck.meanwhile)
        if kind in ("item", "died"):
            self._came_back = True
            self._results[self._asked[content[0]]] = (kind, content[1])
            return
        text = _refusal(session, content[0]) if kind == "refused" else str(content[0])
        why = f"--evalcheck-run={self.library}: {' '.join(text.split())}"
        self._report_early(session)
        if not self.evalcheck.cells:
            raise pytest.UsageError(f"--evalcheck-run={self.library}: {text}")
        self.evalcheck.facts.problems[why] = None
        pytest.exit(why, returncode=pytest.ExitCode.INTERRUPTED)

    def _report_early(self, session: pytest.Session) -> None:
        """Report the items that have ended, where the run ends before it is their turn."""
        for index in sorted(self._results):
            self._report(session.items[index], *self._results.pop(index))

    def _start(self, item: pytest.Item) -> None:
        self._started = item
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)

    def _report(self, item: pytest.Item, kind: str, content: Any) -> None:
        hook = item.ihook
        if self._started is not item:
            self._start(item)
        if kind == "died":
            self._report_died(item, content)
        for text in content if kind == "item" else ():
            name, *rest = json.loads(text)
            if name == "report":
                self._report_received(item, rest[0])
            elif name == "warning":
                record_warning(item.config, rest[0])
            elif name == "left":
                error, said, code = rest
                raise KeyboardInterrupt(said) if error == "KeyboardInterrupt" else pytest.exit.Exception(said, code)
            elif name == "internal error":
                raise RuntimeError(f"the pytest of a worker ended in an error at {item.nodeid}:\n{rest[0]}")
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _report_received(self, item: pytest.Item, data: dict[str, Any]) -> None:
        report = received_report(item.config, data)
        cells = [json.loads(value) for name, value in report.user_properties if name == "evalcheck"]
        if report.when == "call" and report.failed and cells and cells[-1]["outcome"] == "failed":
            # Which causes were shown before is known here alone.
            from pytest_evalcheck.reports.results import Cell

            cell = Cell.from_json(cells[-1])
            report.longrepr = report_of_cell(self.evalcheck, item, cell, "call").longrepr
        item.ihook.pytest_runtest_logreport(report=report)

    def _report_died(self, item: pytest.Item, how: str) -> None:
        runner = runner_of(item)
        headline = f"the worker of the check died {cluster_tasks.MOST_DEATHS} times, the last time without other checks"
        if runner is None:
            call = pytest.CallInfo.from_call(lambda: pytest.fail(f"{headline}: {how}", pytrace=False), "call")
            item.ihook.pytest_runtest_logreport(report=pytest.TestReport.from_item_and_call(item, call))
            return
        fault = TargetError(
            headline, actual=how, expected="it ends by itself, and leaves its process alone", cause="died"
        )
        cell = runner.untestable(fault, time.monotonic())
        attach(item, cell)
        for when in ("setup", "call", "teardown"):
            item.ihook.pytest_runtest_logreport(report=report_of_cell(self.evalcheck, item, cell, when))


class _Client:
    """The process between pytest and a cluster."""

    def __init__(self) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - until end()
        self._connection, theirs = Pipe()
        path = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(
            [sys.executable, "-m", cluster_tasks.__name__, str(theirs.fileno())],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C is for pytest, which ends it in order
        )
        theirs.close()

    def send(self, message: Any) -> None:
        """Send a message; `message` says where the process is gone."""
        with suppress(OSError):
            self._connection.send(message)

    def message(self, meanwhile: Iterable[Callable[[], None]] = ()) -> Any:
        """The next message; a process that has ended says why as a problem.

        ``meanwhile`` is called while there is none.
        """
        try:
            while not self._connection.poll(0.2):
                for each in tuple(meanwhile):
                    each()
                if self._process.poll() is not None and not self._connection.poll(0):
                    raise EOFError
            return self._connection.recv()
        except (EOFError, OSError):
            self._process.wait()
            self._output.seek(0)
            last = self._output.read().decode("utf-8", "replace").strip().splitlines()[-10:]
            code = self._process.returncode
            return "problem", "\n".join([f"the process of its client ended (exit code {code})", *last])

    def leave(self) -> None:
        """Let the process end its tasks, and the cluster that it has started, while the reports are written."""
        self._connection.close()

    def end(self) -> None:
        """Wait until the process has ended, and kill what is left of it."""
        self.leave()
        try:
            self._process.wait(_FAREWELL)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._output.close()


def _refusal(session: pytest.Session, content: dict[str, Any]) -> str:
    text = f"a worker ({content['worker']}) cannot run these checks: {content['text']}"
    if "ids" in content:
        here, there = {item.nodeid for item in session.items}, set(content["ids"])
        for where, ids in (("only here", here - there), ("only there", there - here)):
            if ids:
                more = f" and {len(ids) - _MOST_IDS} more" if len(ids) > _MOST_IDS else ""
                text += f"\n    {where}: {', '.join(sorted(ids)[:_MOST_IDS])}{more}"
    return text
