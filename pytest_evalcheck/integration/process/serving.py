"""The worker's side of a cluster: a task runs one item in a pytest of its own, which stays for further items.

That pytest is to the run what a worker of pytest-xdist is to its controller: it has ``config.workerinput``, so that
plugins which know those workers write no reports and no caches here.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

_IDLE = 300.0
"""Seconds without an item after which a pytest ends: nobody may be left to end it."""
_FAREWELL = 15.0
_MOST_LINES = 15

_processes: dict[str, list[ServingProcess]] = {}
"""By run: those that wait for an item."""
_busy: dict[str, list[ServingProcess]] = {}
_lock = threading.Lock()


def run_item(run: Mapping[str, Any], nodeid: str, following: str | None) -> dict[str, Any]:
    """The task: run one item, and return what its pytest reports.

    ``following`` is the item after it in the run, which decides what is torn down. The answer has one key:
    ``messages`` are those of the item, ``refused`` says why this worker cannot run items of this run, and ``died`` how
    the pytest ended.
    """
    key = str(run["key"])
    process: ServingProcess | None = None
    try:
        with _lock:
            waiting = _processes.setdefault(key, [])
            while waiting and process is None:
                process = waiting.pop()
                if not process.alive:
                    process.end()
                    process = None
        process = process or ServingProcess(run)
        with _lock:
            _busy.setdefault(key, []).append(process)
        try:
            messages = process.run(nodeid, following)
        finally:
            with _lock, contextlib.suppress(ValueError):
                _busy[key].remove(process)
    except RefusedError as refused:
        return {"refused": refused.content}
    except (EOFError, OSError) as error:
        return {"died": process.end() if process is not None else str(error)}
    with _lock:
        _processes[key].append(process)
    return {"messages": messages}


def end_run(key: str) -> None:
    """End what is left of a run on this worker."""
    with _lock:
        left = [*_processes.pop(key, []), *_busy.pop(key, [])]
    for process in left:
        process.end()


class RefusedError(Exception):
    """A worker cannot run the items of a run."""

    def __init__(self, text: str, **content: Any) -> None:
        super().__init__(text)
        self.content = {"text": text, "worker": f"{socket.gethostname()}, {sys.executable}", **content}


class ServingProcess:
    """A process in which pytest waits for items."""

    def __init__(self, run: Mapping[str, Any]) -> None:
        folder = Path(run["folder"])
        if not folder.is_dir():
            raise RefusedError(
                f"there is no folder {folder}: workers need the files of the project under the same path"
            )
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - until end()
        self._connection, theirs = Pipe()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **run["environment"]}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno())],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        try:
            self._connection.send(dict(run))
            kind, *content = self._message()
        except (EOFError, OSError):
            self._process.wait()
            text = f"its pytest ended with exit code {self._process.returncode}:\n{self._tail()}"
            self.end()
            raise RefusedError(text) from None
        if kind == "refused":
            self.end()
            raise RefusedError(content[0], **content[1])

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def run(self, nodeid: str, following: str | None) -> list[str]:
        """The messages of one item, each as JSON."""
        self._connection.send((nodeid, following))
        messages: list[str] = []
        while True:
            kind, *content = self._message()
            if kind == "done":
                return messages
            messages.append(content[0])

    def end(self) -> str:
        """End the process, and return how it ended."""
        self._connection.close()  # it interrupts itself, and takes the process of a cell along
        try:
            code = self._process.wait(_FAREWELL)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            code = self._process.wait()
        tail = "" if self._output.closed else self._tail()
        self._output.close()
        return f"exit code {code}\n{tail}".strip()

    def _message(self) -> Any:
        while not self._connection.poll(0.5):
            if not self.alive and not self._connection.poll(0):
                raise EOFError  # a process that it has left may hold the other end
        return self._connection.recv()

    def _tail(self) -> str:
        self._output.seek(0)
        lines = self._output.read().decode("utf-8", "replace").strip().splitlines()
        return "\n".join(lines[-_MOST_LINES:])


def digest_of_ids(nodeids: Iterable[str]) -> str:
    """What a selection is compared by, in any order."""
    return hashlib.blake2b("\n".join(sorted(nodeids)).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


class _Sender:
    """What `Reporter` sends by."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._process = connection, os.getpid()

    def send(self, *message: Any) -> None:
        """Send a message of an item."""
        if os.getpid() == self._process:
            self._connection.send(("message", json.dumps(message, default=str)))


def serve(connection: Connection) -> int:
    """Be the pytest of a run until the other end is closed."""
    import pytest

    from pytest_evalcheck.integration.process.child import Reporter
    from pytest_evalcheck.reports.jsonl import digest

    run = connection.recv()
    own = [path for path in sys.path if path not in run["path"]]
    sys.path[:] = [*(path for path in run["path"] if not path or os.path.exists(path)), *own]

    class Serving(Reporter):
        def __init__(self) -> None:
            self.connection: Any = _Sender(connection)
            self.interrupted = False

        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_cmdline_parse(self) -> Any:
            self.config = config = yield
            config.workerinput = {**run["workerinput"], "workerid": f"on{os.getpid()}"}
            config.workeroutput = {}
            option = config.option
            nothing: dict[str, Any] = {
                "evalcheck_run": None,
                "evalcheck_report": [],
                "evalcheck_resume": None,
            }
            nothing |= {"xmlpath": None, "log_file": None, "maxfail": 0, "numprocesses": None, "tx": [], "dist": "no"}
            for name, value in nothing.items():
                if hasattr(option, name):
                    setattr(option, name, value)
            if getattr(option, "basetemp", None):
                option.basetemp = str(Path(option.basetemp) / f"{socket.gethostname()}-{os.getpid()}")
                Path(option.basetemp).parent.mkdir(parents=True, exist_ok=True)
            return config

        def pytest_warning_recorded(self, warning_message: Any, when: str, nodeid: str, location: Any) -> None:
            if when == "runtest":  # the run collects, too
                super().pytest_warning_recorded(warning_message, when, nodeid, location)

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtestloop(self, session: pytest.Session) -> bool:
            items = {item.nodeid: item for item in session.items}
            files = {name: digest(str(session.config.rootpath / name)) for name in run["files"]}
            if changed := [name for name, value in run["files"].items() if files[name] != value]:
                missing = [name for name in changed if not files[name]]
                what = f"{missing[0]} is missing" if missing else f"{changed[0]} is another file than in this run"
                connection.send(("refused", f"{what}: workers need the files of the project", {}))
            elif digest_of_ids(items) != run["ids"]:
                connection.send(("refused", "it collects other checks than this run", {"ids": sorted(items)}))
            else:
                connection.send(("ready",))
                self._serve(items)
            return True

        def _serve(self, items: dict[str, pytest.Item]) -> None:
            commands: queue.SimpleQueue[Any] = queue.SimpleQueue()
            runs = threading.Event()
            threading.Thread(target=_receive, args=(connection, commands, runs), daemon=True).start()
            while True:
                try:
                    command = commands.get(timeout=_IDLE)
                except queue.Empty:
                    return
                if command is None:
                    return
                nodeid, following = command
                item = items[nodeid]
                runs.set()
                try:
                    item.session._setupstate.teardown_exact(item)  # where cells run in this process
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=items.get(following))
                except (KeyboardInterrupt, pytest.exit.Exception) as error:
                    code = getattr(error, "returncode", None)
                    self.connection.send("left", type(error).__name__, str(error), code)
                except BaseException as error:
                    import traceback

                    self.connection.send("internal error", "".join(traceback.format_exception(error)))
                runs.clear()
                connection.send(("done",))

    return int(pytest.main(list(run["arguments"]), plugins=[Serving()]))


def _receive(connection: Connection, commands: queue.SimpleQueue[Any], runs: threading.Event) -> None:
    # Signals are for the main thread, which looks at who sent them.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        try:
            commands.put(connection.recv())
        except (EOFError, OSError):
            break
    commands.put(None)
    if runs.is_set():
        os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(_FAREWELL / 2)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    from pytest_evalcheck.integration.process import serving

    inherited = int(sys.argv[1])
    os.set_inheritable(inherited, False)
    code = serving.serve(Connection(inherited))
    sys.stdout.flush()
    os._exit(code)  # what libraries do at exit takes seconds, and there is nobody for whom
