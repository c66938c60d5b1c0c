"""The views of a `Report`, and where ``--evalcheck-report FORMAT=PATH`` writes them.

A view depends on `pytest_evalcheck.reports.results` and the standard library alone, HTML on jinja2 too. A view is
imported when it is used.
"""

from __future__ import annotations

import os
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from pytest_evalcheck.reports.results import Report

FORMATS = {"json": "json=evalcheck.json", "github": 'github="$GITHUB_STEP_SUMMARY"', "html": "html=evalcheck.html"}
"""The formats, with an example of each. The module of this name in this package writes it."""


class ReportError(ValueError):
    """A report that cannot be written or read; its message is one sentence for the user."""


def write(report: Report, name: str, path: Path) -> None:
    """Write a report in the format ``name`` to ``path``.

    Raises:
        ReportError: when there is no room left for a GitHub summary.
        OSError: when the file cannot be written.
    """
    import_module(f"{__name__}.{name}").write(report, path)


def parse(spec: str) -> tuple[str, Path]:
    """The format and the path of ``FORMAT=PATH``; ``~`` is expanded, because no shell expands it after ``=``.

    Raises:
        ReportError: when there is no ``=``, no such format, no path, or when the format needs a library that is not
            installed.
    """
    name, equals, path = (part.strip() for part in spec.partition("="))
    option = f"--evalcheck-report {spec!r}"
    if not equals:
        raise ReportError(f"{option} has no path: write FORMAT=PATH, such as {FORMATS.get(name, FORMATS['json'])}")
    if name not in FORMATS:
        near = get_close_matches(name.lower(), FORMATS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(FORMATS)}."
        raise ReportError(f"{option} names the unknown format {name!r}; {hint}")
    if not path:
        raise ReportError(f"{option} has no path after '='; if a variable was there, it is not set.")
    if name == "html" and find_spec("jinja2") is None:
        raise ReportError(f"{option} needs jinja2, which is not installed: pip install 'pytest-evalcheck[html]'")
    return name, Path(path).expanduser()


def check_writable(path: Path) -> None:
    """Check before the run that a report can be written to ``path``; missing parent folders are created.

    An existing file keeps its content. Raises `ReportError`, which names the obstacle.
    """
    problem = f"the report {str(path)!r} cannot be written"
    try:
        if path.is_dir():
            raise ReportError(f"{problem}: it is a folder; name a file, such as {str(path / 'evalcheck.json')!r}.")
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            path.open("ab").close()
        elif path.exists():  # a pipe, whose opening could wait for a reader
            if not os.access(path, os.W_OK):
                raise PermissionError("no permission to write there")
        else:
            new = Path(os.path.realpath(path))
            new.touch(exist_ok=False)
            new.unlink()
    except FileExistsError as error:
        raise ReportError(f"{problem}: {error.filename!r} is a file, not a folder.") from error
    except OSError as error:
        raise ReportError(f"{problem}: {error.strerror or error} ({str(path.parent)!r}).") from error


def write_file(data: bytes, path: Path) -> None:
    """Write ``data`` to ``path``; a reader sees the old file or the new one, never a part of it.

    Raises `OSError` when the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():  # a pipe or a terminal
        path.write_bytes(data)
        return
    path = Path(os.path.realpath(path))
    # Unlike `tempfile`, this leaves the file as readable for others as the umask permits.
    temporary = path.parent / f".evalcheck-{os.getpid()}-{os.urandom(4).hex()}.tmp"
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except OSError:
        # A file that is a mount point, or is in a folder without write permission, can be written but not replaced.
        temporary.unlink(missing_ok=True)
        path.write_bytes(data)
