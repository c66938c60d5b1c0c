"""A pytest of its own that has collected the items of a run, and runs those that it names.

It is to the run what a worker of pytest-xdist is to its controller: it has ``config.workerinput``, so that plugins
which know those workers write no reports and no caches here.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_evalcheck.integration.process.child import Reporter
from pytest_evalcheck.integration.process.messages import Channel
from pytest_evalcheck.integration.process.processes import Child, spawn
from pytest_evalcheck.reports.jsonl import digest

_IDLE = 300.0
"""Seconds without an item after which the process ends: nobody may be left to end it."""
_FAREWELL = 15.0
_NOT_HERE: dict[str, Any] = {
    **dict.fromkeys(("evalcheck_run", "evalcheck_resume", "xmlpath", "log_file", "numprocesses")),
    **dict.fromkeys(("maxfail", "usepdb", "trace"), 0),
    **{name: [] for name in ("evalcheck_report", "tx")},
    "dist": "no",
}
"""Options that the run itself acts upon."""


def described_run(
    evalcheck: Any, config: pytest.Config, nodeids: Iterable[str], arguments: Sequence[Any], *, workers: int = 1
) -> dict[str, Any]:
    """Return what a process needs to know of a run: how pytest is called there, and what it has to find."""
    node = SimpleNamespace(config=config, workerinput={"randomly_seed": getattr(config.option, "randomly_seed", 0)})
    evalcheck.pytest_configure_node(node)
    ids = set(nodeids)
    paths = {name: config.rootpath / name for name in sorted({nodeid.partition("::")[0] for nodeid in ids})}
    return {
        "arguments": [str(argument) for argument in arguments],
        "folder": str(config.invocation_params.dir),
        "path": list(sys.path),
        "workerinput": {"workercount": workers, "mainargv": sys.argv, "testrunuid": "", **node.workerinput},
        "ids": _digest_of_ids(ids),
        "files": {name: digest(str(path)) for name, path in paths.items() if path.is_file()},
    }


class RefusedError(Exception):
    """Raised where a new process cannot run the items of a run."""

    def __init__(self, text: str, ids: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.text, self.ids = text, ids
        """The reason, and the ids that the process has collected where it has others."""


def spawn_pytest(run: Mapping[str, Any], *, supervised: bool = False, patience: float | None = None) -> Child:
    """Start a pytest that has collected the items of a run, within ``patience`` seconds.

    With ``supervised`` it runs cells itself, and this process watches their limits.

    Raises:
        RefusedError: when it cannot run these items.
    """
    folder = Path(run["folder"])
    if not folder.is_dir():
        raise RefusedError(f"there is no folder {folder}: workers need the files of the project under the same path")
    child = spawn(__name__, folder=folder, environment=run.get("environment"))
    child.send({**run, "supervised": supervised})
    child.deadline = patience and time.monotonic() + patience
    try:
        while (answer := child.message()) == ["signal"]:
            pass
    except BaseException:
        child.end(0.0)
        raise
    if answer is None:
        child.end(0.0)
        how = f"did not start within {patience:g} seconds" if child.hangs else f"ended with exit code {child.code}"
        raise RefusedError(f"its pytest {how}:\n{child.last_lines}")
    if answer[0] == "refused":
        child.end(_FAREWELL)
        raise RefusedError(*answer[1:])
    return child


def _digest_of_ids(nodeids: Iterable[str]) -> str:
    return hashlib.blake2b("\n".join(sorted(nodeids)).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


class _Spawned(Reporter):
    """The plugin that runs the items of this process."""

    def __init__(self, channel: Channel, run: Mapping[str, Any]) -> None:
        self.run, self.busy = run, False
        super().__init__(None, channel)  # type: ignore[arg-type]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_cmdline_parse(self) -> Generator[None, Any, Any]:
        """Make this a worker, whatever the options say."""
        self.config = config = yield
        config.workerinput = {**self.run["workerinput"], "workerid": f"on{os.getpid()}"}
        config.workeroutput = {}
        vars(config.option).update({name: _NOT_HERE[name] for name in _NOT_HERE.keys() & vars(config.option).keys()})
        if config.pluginmanager.hasplugin("_cov"):
            config.pluginmanager.unregister(name="_cov")
        if getattr(config.option, "basetemp", None):
            config.option.basetemp = str(Path(config.option.basetemp) / f"{socket.gethostname()}-{os.getpid()}")
            Path(config.option.basetemp).parent.mkdir(parents=True, exist_ok=True)
        return config

    def pytest_warning_recorded(self, warning_message: Any, when: str, nodeid: str, location: Any) -> None:
        """Send a warning of an item: the run collects, too."""
        if when == "runtest":
            super().pytest_warning_recorded(warning_message, when, nodeid, location)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the items that the run names, where these are its items."""
        items = {item.nodeid: item for item in session.items}
        files = {name: digest(str(session.config.rootpath / name)) for name in self.run["files"]}
        if changed := [name for name, value in self.run["files"].items() if files[name] != value]:
            missing = [name for name in changed if not files[name]]
            what = f"{missing[0]} is missing" if missing else f"{changed[0]} is another file than in this run"
            self.send("refused", f"{what}: workers need the files of the project")
        elif _digest_of_ids(items) != self.run["ids"]:
            self.send("refused", "it collects other checks than this run", sorted(items))
        else:
            self.send("ready")
            if self.run["supervised"]:
                self.supervise()
            self.run_items(session, items, self._commands())
        return True

    def _commands(self) -> Iterator[Any]:
        commands = self.channel.queue(self._end)
        with contextlib.suppress(queue.Empty):
            while (command := commands.get(timeout=_IDLE)) is not None:
                self.busy = True
                yield command
                self.busy = False

    def _end(self) -> None:
        if self.busy:
            os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(_FAREWELL / 2)
        os.kill(os.getpid(), signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)


def main(reader: int, writer: int) -> None:
    """Be the pytest of a run until the other end is closed."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
    channel = Channel(reader, writer)
    run = channel.receive()[0]
    own = [path for path in sys.path if path not in run["path"]]
    sys.path[:] = [*(path for path in run["path"] if not path or os.path.exists(path)), *own]
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    code = int(pytest.main(list(run["arguments"]), plugins=[_Spawned(channel, run)]))
    sys.stdout.flush()
    os._exit(code)  # what libraries do at exit takes seconds, and there is nobody for whom
