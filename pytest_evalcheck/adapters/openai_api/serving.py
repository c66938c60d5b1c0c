"""A server for the time of some tests: on a free port of this machine, ready when it is handed out, and ended for sure.

A small process watches a pipe from this one. When the pipe is closed, also because this process and its forks were
killed, it ends the group of the server.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_evalcheck.adapters.openai_api.client import Client, EngineError, EngineRefusal

_LINES = 12
_WATCH = """
import os, signal, subprocess, sys, threading, time
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
def end(number):
    try:
        os.killpg(server.pid, number)
    except ProcessLookupError:
        pass
def watch():
    os.read(0, 1)
    end(signal.SIGTERM)
    time.sleep(3)
    end(signal.SIGKILL)
signal.signal(signal.SIGINT, signal.SIG_IGN)
threading.Thread(target=watch, daemon=True).start()
code = server.wait()
end(signal.SIGKILL)  # what it has started
os._exit(code if code >= 0 else 128 - code)
"""


@contextmanager
def serving(
    command: Sequence[str],
    *,
    health: str = "/v1/models",
    timeout: float = 120.0,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Iterator[str]:
    """Start a server, and yield its address, ``http://127.0.0.1:PORT``, once it answers; end it after the block.

    Args:
        command: the program and its arguments; ``{port}`` in one of them becomes a free port.
        health: the path that answers when the server is ready.
        timeout: seconds until then.
        environment: the variables of the server; by default those of this process.
        folder: the folder that it runs in; by default that of this process.

    Raises:
        EngineError: where the server ends or does not answer in time, with the last lines that it printed.
    """
    __tracebackhide__ = True  # the error says what happened
    port, owner = _free_port(), os.getpid()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as logs:
        log = Path(logs) / "server.log"
        words = [word.replace("{port}", str(port)) for word in command]
        with log.open("wb") as output:
            watcher = subprocess.Popen(
                [sys.executable, "-c", _WATCH, *words],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=None if environment is None else dict(environment),
                cwd=folder,
                start_new_session=True,
            )
        try:
            _wait_for(Client(url, timeout=min(5.0, timeout)), health, watcher, timeout, log)
            yield url
        finally:
            if os.getpid() == owner:  # a fork of this process has the block, too
                watcher.communicate(b"x")  # forks keep the pipe open


def _wait_for(client: Client, path: str, watcher: subprocess.Popen[bytes], timeout: float, log: Path) -> None:
    __tracebackhide__ = True
    deadline, last = time.monotonic() + timeout, ""
    while True:
        code = watcher.poll()
        if code is not None:
            raise EngineError(f"the server ended with code {code} before it answered{_printed(log)}")
        try:
            client.touch("GET", path)
            return
        except EngineRefusal:
            return  # it is there
        except EngineError as error:
            last = str(error)
        if time.monotonic() > deadline:
            raise EngineError(f"the server was not ready in {timeout:g} s: {last}{_printed(log)}")
        time.sleep(0.05)


def _printed(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LINES:]
    return "\n".join([". It printed:", *lines]) if lines else ". It printed nothing."


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
