"""The views of a `Report`, and where ``--evalcheck-report FORMAT=PATH`` writes them.

A view depends on `pytest_evalcheck.reports.results` and the standard library alone, HTML on jinja2 too. A view is
imported when it is used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytest_evalcheck.reports.results import Report

FORMATS = {
    "json": "json=evalcheck.json",
    "jsonl": "jsonl=evalcheck.jsonl",
    "github": 'github="$GITHUB_STEP_SUMMARY"',
    "html": "html=evalcheck.html",
    "sarif": "sarif=evalcheck.sarif",
    "badge": "badge=evalcheck-badge.json",
}
"""The formats, with an example of each. The module of this name in this package writes it."""


class ReportError(ValueError):
    """A report that cannot be written or read; its message is one sentence for the user."""


def write(report: Report, name: str, path: Path, checks: Callable[[], Iterable[Any]] = tuple) -> str:
    """Write a report in the format ``name`` to ``path``.

    ``checks`` gives the registered ones, for a format that describes them: reports do not know them. Returns a sentence
    about what the format had no room for; empty where it has everything.

    Raises:
        ReportError: when there is no room left for a GitHub summary.
        OSError: when the file cannot be written.
    """
    more = (tuple(checks()),) if name in _DESCRIBE_CHECKS else ()
    return import_module(f"{__name__}.{name}").write(report, path, *more) or ""


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
    if more := re.search(rf",\s*((?:{'|'.join(FORMATS)})=.*)", path):
        raise ReportError(
            f"{option} names several reports; give each an option of its own: "
            f"--evalcheck-report={name}={path[: more.start()]} --evalcheck-report={more[1].partition(',')[0]}"
        )
    if name == "html" and find_spec("jinja2") is None:
        raise ReportError(f"{option} needs jinja2, which is not installed: pip install 'pytest-evalcheck[html]'")
    return name, Path(path).expanduser()


def check_paths(reports: Sequence[tuple[str, Path]]) -> None:
    """Check before the run that every report can be written, each to a path of its own.

    Raises:
        ReportError: when one cannot, or would replace what is no report.
    """
    seen: dict[Path, str] = {}
    for name, path in reports:
        place = path.resolve()
        if place in seen:
            raise ReportError(
                f"the {seen[place]} report and the {name} report have one path, {str(path)!r}: only the last would be "
                f"left; name another, such as {str(path.with_name(f'evalcheck-{name}{path.suffix}'))!r}."
            )
        seen[place] = name
        _refuse_sources(name, path)
        check_writable(path, _usual_name(name))


def _refuse_sources(name: str, path: Path) -> None:
    problem = f"the {name} report would be written to {str(path)!r}"
    better = str(Path("reports") / _usual_name(name))
    if path.suffix in _SOURCES:
        raise ReportError(f"{problem}, which is the name of source code or of a configuration; expected {better!r}.")
    if (path.parent / "__init__.py").exists():
        raise ReportError(f"{problem}, inside of a Python package; expected a path outside of it, such as {better!r}.")
    if name != "github" and path.is_file() and path.stat().st_size:  # a summary is appended
        with path.open("rb") as file:
            head = file.read(_HEAD)
        if not all(mark in head for mark in _MARKS.get(name, ())):
            raise ReportError(f"{problem}, a file that is no {name} report of this suite; expected {better!r}.")


def _usual_name(name: str) -> str:
    return {"github": "evalcheck.md", "badge": "badge.json"}.get(name, f"evalcheck.{name}")


_DESCRIBE_CHECKS = ("sarif",)
_SOURCES = (".py", ".pyi", ".pyx", ".ipynb", ".toml", ".ini", ".cfg", ".yml", ".yaml")
_HEAD = 4096
_MARKS = {
    "json": (b'"schema": "pytest-evalcheck/',),
    "jsonl": (b'"pytest-evalcheck',),
    "html": (b"<!doctype html>", b"<title>evalcheck: "),
    "sarif": (b"/sarif-schema-2.1.0.json", b'"name": "pytest-evalcheck"'),
    "badge": (b'"schemaVersion": 1', b'"label": "evalcheck"'),
}
"""What the first bytes of a report of ours hold."""


def check_writable(path: Path, usual: str = "evalcheck.json") -> None:
    """Check before the run that a report can be written to ``path``; missing parent folders are created.

    ``usual`` is what such a file is called.

    An existing file keeps its content. Raises `ReportError`, which names the obstacle.
    """
    problem = f"the report {str(path)!r} cannot be written"
    try:
        if path.is_dir():
            raise ReportError(f"{problem}: it is a folder; name a file, such as {str(path / usual)!r}.")
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
