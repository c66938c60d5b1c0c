"""Writing a whole report."""

from __future__ import annotations

import os
from pathlib import Path


def put(data: bytes, path: Path) -> None:
    """Write ``data`` to ``path``; a reader sees the old file or the new one, never a half.

    Raises `OSError` when the place cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():  # a pipe or a terminal
        path.write_bytes(data)
        return
    path = Path(os.path.realpath(path))
    # Unlike `tempfile`, this leaves the file as readable for others as the umask lets it be.
    temporary = path.parent / f".evalcheck-{os.getpid()}-{os.urandom(4).hex()}.tmp"
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except OSError:
        # A file that is mounted alone, or stands in a folder that is closed, can be written but not replaced.
        temporary.unlink(missing_ok=True)
        path.write_bytes(data)
