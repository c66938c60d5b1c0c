"""The worker's side of a cluster: a task runs one item in a pytest of its own, which stays for further items."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Mapping
from typing import Any

from pytest_evalcheck.integration.process.processes import Child
from pytest_evalcheck.integration.process.spawned import RefusedError, spawn_pytest

_FAREWELL = 15.0

_waiting: dict[str, list[Child]] = {}
"""By run: those that wait for an item."""
_busy: dict[str, list[Child]] = {}
_lock = threading.Lock()


def run_item(run: Mapping[str, Any], nodeid: str, following: str | None) -> dict[str, Any]:
    """Run one item, the task, and return what its pytest reports.

    ``following`` is the item after it in the run, which decides what is torn down. The answer has one key:
    ``messages`` are those of the item, ``refused`` says why this worker cannot run items of this run, and ``died`` how
    the pytest ended.
    """
    key = str(run["key"])
    try:
        child = _taken(key) or spawn_pytest(run)
    except RefusedError as refused:
        where = f"{socket.gethostname()}, {sys.executable}"
        return {"refused": {"text": refused.text, "worker": where, "ids": list(refused.ids)}}
    with _lock:
        _busy.setdefault(key, []).append(child)
    child.run(nodeid, following)
    messages: list[Any] = []
    while (message := child.message()) is not None and message[0] != "done":
        messages.append(message)
    with _lock:
        with contextlib.suppress(KeyError, ValueError):  # the run has ended
            _busy[key].remove(child)
        if message is not None:
            _waiting.setdefault(key, []).append(child)
    if message is None and not (messages and messages[-1][0] == "internal error"):
        return {"died": f"{child.end(0.0)}\n{child.last_lines}".strip()}
    return {"messages": messages}


def end_run(key: str) -> None:
    """End what is left of a run on this worker."""
    with _lock:
        left = [*_waiting.pop(key, []), *_busy.pop(key, [])]
    for child in left:
        child.end(_FAREWELL)


def _taken(key: str) -> Child | None:
    while True:
        with _lock:
            if not _waiting.get(key):
                return None
            child = _waiting[key].pop()
        if not child.gone:
            return child
        child.end(0.0)
