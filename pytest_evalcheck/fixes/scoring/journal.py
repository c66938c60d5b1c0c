"""Which document a worker is at, readable after the worker has died."""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_ENTRY = struct.Struct("qd")
_NONE = -1


class Journal:
    """A folder with one small file a worker thread, which holds the document it is at and since when."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="scoring-")

    def running(self) -> dict[int, float]:
        """Return the indices of documents that were begun and not finished, with the seconds since, and forget them.

        Empty where the workers are on another machine.
        """
        now = time.time()
        found = {}
        for path in Path(self.folder).iterdir():
            content = path.read_bytes()
            path.unlink()
            if len(content) == _ENTRY.size:  # else it died before its first document
                index, since = _ENTRY.unpack(content)
                if index != _NONE:
                    found[index] = now - since
        return found

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _nowhere(_index: int) -> None:
    pass


@contextmanager
def writing(folder: str | None) -> Iterator[Callable[[int], None]]:
    """Give a worker the function that notes the document which it begins; one that does nothing without a folder."""
    if folder is None or not os.path.isdir(folder):
        yield _nowhere
        return
    name = os.path.join(folder, f"{os.getpid()}-{threading.get_ident()}")
    with open(name, "wb+") as file:
        file.write(_ENTRY.pack(_NONE, 0.0))
        file.flush()
        # A write to memory: a call into the system for every document would cost more than small documents take.
        with mmap.mmap(file.fileno(), _ENTRY.size) as entry:

            def note(index: int) -> None:
                _ENTRY.pack_into(entry, 0, index, time.time())

            yield note
            note(_NONE)
