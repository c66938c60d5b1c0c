"""The last resort in a worker of xdist that cannot supervise: a thread of C ends it when a cell hangs."""

from __future__ import annotations

import faulthandler
import tempfile
from typing import Any

from pytest_evalcheck.engine import timeout

_files: list[Any] = []


def grace(limit: float) -> float:
    """Seconds that a cell may take beyond its limit before its process is ended: half of it, from 2 to 30."""
    return min(30.0, max(2.0, limit * 0.5))


def watch() -> None:
    """End this process when a cell passes its limit and that grace; xdist reports it and starts another worker.

    The thread needs no lock of Python, so that compiled code that holds it cannot keep it waiting.
    """
    if not _files:
        _files.append(tempfile.TemporaryFile())  # noqa: SIM115 - open until this process ends
        timeout.watchers.append(_announced)


def _announced(seconds: float | None) -> None:
    faulthandler.cancel_dump_traceback_later()
    if seconds is not None and _files:
        faulthandler.dump_traceback_later(min(seconds + grace(seconds), 1e6), exit=True, file=_files[0])
