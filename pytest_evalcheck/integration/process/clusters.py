"""``--evalcheck-run=dask`` and ``--evalcheck-run=ray``: items are tasks of a cluster, and are reported here in order.

The process of pytest collects, and runs no item. A client in a process of its own (`cluster_client`) submits the
items; what a pytest at a worker (`cluster_worker`) reported of them is reported here in the order of one process.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from pytest_evalcheck.integration.choosing.resuming import Resuming
from pytest_evalcheck.integration.process import cluster_client
from pytest_evalcheck.integration.process.exit_guard import looks
from pytest_evalcheck.integration.process.processes import Child, spawn
from pytest_evalcheck.integration.process.replay import Replay
from pytest_evalcheck.integration.process.spawned import described_run
from pytest_evalcheck.reports.json import versions

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
        self._client: Child | None = None
        self._slots = 0
        self._results: dict[int, tuple[str, Any]] = {}
        """Results of items whose turn has not come."""
        self._index: dict[pytest.Item, int] = {}
        self._came_back = False
        """True once something was reported of an item."""
        self._started: pytest.Item | None = None
        """The last item whose start was reported."""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Reach the cluster; a local one starts while targets are collected."""
        if looks(session.config):
            return
        here = versions()
        self._client = spawn(cluster_client.__name__)
        compared, folder = {name: here[name] for name in _COMPARED}, str(session.config.invocation_params.dir)
        self._client.send(self.library, self.address, self.workers, compared, folder)
        session.config.add_cleanup(partial(_end, self._client))
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
            self._client.leave()  # it ends its tasks while reports are written
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
        if not self._slots:
            kind, *content = self._message()
            if kind != "ready":
                raise pytest.UsageError(f"--evalcheck-run={self.library}: {content[0]}")
            self._slots = content[0]

    def _message(self, meanwhile: Iterable[Callable[[], None]] = ()) -> Any:
        """Return the next message of the client; where its process has ended, the problem that it shows."""
        assert self._client is not None
        message = self._client.message(meanwhile)
        if message is None:
            self._client.end(0.0)
            ended = f"the process of its client ended (exit code {self._client.code})"
            return "problem", f"{ended}\n{self._client.last_lines}"
        return message

    def _submit(self, session: pytest.Session) -> None:
        assert self._client is not None
        config, items = session.config, session.items
        ids = [item.nodeid for item in items]
        run = described_run(self.evalcheck, config, ids, config.invocation_params.args, workers=self._slots)
        run["key"] = uuid.uuid4().hex
        run["environment"] = {name: os.environ[name] for name in _FOR_PYTEST if name in os.environ}
        self._index = {item: index for index, item in enumerate(items)}
        self._asked = [
            index for index, item in enumerate(items) if self._resumed is None or not self._resumed.has_result(item)
        ]
        following = [*ids[1:], None]
        self._client.send(run, [(ids[index], following[index]) for index in self._asked])

    def _receive(self, session: pytest.Session) -> None:
        """Take one message of the client; a run without a cluster ends here, with what is known so far."""
        kind, *content = self._message(self.evalcheck.meanwhile)
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
        if self._started is not item:
            self._start(item)
        replay = Replay(self.evalcheck, item)
        if kind == "died":
            deaths = cluster_client.MOST_DEATHS
            replay.blame(
                f"the worker of the check died {deaths} times, the last time without other checks", content, "died"
            )
            replay.end()
        for message in content if kind == "item" else ():
            replay.add(*message)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _end(client: Child) -> None:
    client.end(_FAREWELL)


def _refusal(session: pytest.Session, content: dict[str, Any]) -> str:
    text = f"a worker ({content['worker']}) cannot run these checks: {content['text']}"
    if content["ids"]:
        here, there = {item.nodeid for item in session.items}, set(content["ids"])
        for where, ids in (("only here", here - there), ("only there", there - here)):
            if ids:
                more = f" and {len(ids) - _MOST_IDS} more" if len(ids) > _MOST_IDS else ""
                text += f"\n    {where}: {', '.join(sorted(ids)[:_MOST_IDS])}{more}"
    return text
