"""Processes that tests start."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def interruptible(command: list[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that Ctrl-C interrupts, and that has ended after the block.

    A shell starts what is in the background with SIGINT ignored, and every process below it inherits that.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        yield run
    finally:
        run.kill()
        run.communicate()
