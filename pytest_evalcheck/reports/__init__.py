"""The views of a `Report`, and the formats in which ``--evalcheck-report FORMAT=PATH`` writes them.

A view depends on `pytest_evalcheck.reports.results` and the standard library alone, HTML on jinja2 too. A view is
imported when it is used. Other distributions name formats of their own as entry points of `ENTRY_POINTS`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytest_evalcheck.errors import nearest, safe_text
from pytest_evalcheck.reports.results import Report

ENTRY_POINTS = "pytest_evalcheck_reports"
"""The group of entry points that name a `ReportFormat` each."""


@dataclass(frozen=True, kw_only=True)
class ReportFormat:
    """A format of reports. A distribution names its own as an entry point, whose name is that of the format."""

    write: Callable[..., str | None]
    """Called with the `Report` and the path; returns a sentence about what the format had no room for, or nothing."""
    file: str
    """The usual name of such a file, such as ``evalcheck.csv``."""
    marks: tuple[bytes, ...] = ()
    """Bytes that the beginning of each such file holds, so that no other file is replaced."""
    appends: bool = False
    """Add a report to what is in the file."""
    example: str = ""
    """A path for error messages, as it is written in a shell; the usual name where it is empty."""
    screen: bool = False
    """Take ``-`` for the path, which is standard output."""
    describes_checks: bool = False
    """Call `write` with the registered checks, too: reports do not know them."""


def _view(name: str) -> Callable[..., str | None]:
    def write(*arguments: Any) -> str | None:
        text: str | None = import_module(f"{__name__}.{name}").write(*arguments)
        return text

    return write


FORMATS: Mapping[str, ReportFormat] = {
    "json": ReportFormat(write=_view("json"), file="evalcheck.json", marks=(b'"schema": "pytest-evalcheck/',)),
    "jsonl": ReportFormat(write=_view("jsonl"), file="evalcheck.jsonl", marks=(b'"pytest-evalcheck',)),
    "github": ReportFormat(write=_view("github"), file="evalcheck.md", appends=True, example='"$GITHUB_STEP_SUMMARY"'),
    "comment": ReportFormat(write=_view("comment"), file="evalcheck-comment.md", marks=(b"<!-- pytest-evalcheck -->",)),
    "annotations": ReportFormat(
        write=_view("workflow_commands"), file="evalcheck-annotations.txt", appends=True, screen=True, example="-"
    ),
    "html": ReportFormat(write=_view("html"), file="evalcheck.html", marks=(b"<!doctype html>", b"<title>evalcheck: ")),
    "sarif": ReportFormat(
        write=_view("sarif"),
        file="evalcheck.sarif",
        marks=(b"/sarif-schema-2.1.0.json", b'"name": "pytest-evalcheck"'),
        describes_checks=True,
    ),
    "badge": ReportFormat(
        write=_view("badge"),
        file="badge.json",
        marks=(b'"schemaVersion": 1', b'"label": "evalcheck"'),
        example="evalcheck-badge.json",
    ),
}
"""The formats of this package."""


SCREEN = Path("-")
"""The path of a report that is written to standard output."""


class ReportError(ValueError):
    """A report that cannot be written or read; its message is one sentence for the user."""


def format_of(name: str) -> ReportFormat:
    """Return a format by its name: one of this package, or the entry point of another distribution.

    Raises:
        ReportError: when it is not one format, or its entry point cannot be used.
    """
    found = [entry for entry in _entry_points() if entry.name == name]
    sources = [*(["pytest-evalcheck"] if name in FORMATS else []), *map(_source, found)]
    if len(sources) > 1:
        raise ReportError(f"the report format {name!r} is registered twice: by {' and by '.join(sources)}")
    if name in FORMATS:
        return FORMATS[name]
    if not found:
        names = [*FORMATS, *sorted({entry.name for entry in _entry_points()})]
        hint = nearest(name.lower(), names) or f"; there are {', '.join(names)}."
        raise ReportError(f"there is no format {name!r}{hint}")
    problem = f"the entry point {name} = {found[0].value!r} of {sources[0]} is no report format"
    try:
        made = found[0].load()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise ReportError(f"{problem}: {type(error).__name__}: {safe_text(error, str)}") from error
    if not isinstance(made, ReportFormat):
        raise ReportError(f"{problem}: it is {safe_text(made)}; expected an ec.ReportFormat")
    return made


@cache
def _entry_points() -> tuple[metadata.EntryPoint, ...]:
    return tuple(metadata.entry_points(group=ENTRY_POINTS))


def _source(entry: metadata.EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown distribution"


def write(report: Report, name: str, path: Path, checks: Callable[[], Iterable[Any]] = tuple) -> str:
    """Write a report in the format ``name`` to ``path``.

    ``checks`` gives the registered ones, for a format that describes them. Return a sentence about what the format had
    no room for; empty where it has everything.

    Raises:
        ReportError: when there is no room left for a GitHub summary, or a format of another distribution fails.
        OSError: when the file cannot be written.
    """
    wanted = format_of(name)
    try:
        return wanted.write(report, path, *((tuple(checks()),) if wanted.describes_checks else ())) or ""
    except (OSError, ReportError):
        raise
    except Exception as error:  # of another distribution: all other reports are written
        if name in FORMATS:
            raise
        raise ReportError(f"its format raised {type(error).__name__}: {safe_text(error, str)}") from error


def parse(spec: str) -> tuple[str, Path]:
    """Return the format and the path of ``FORMAT=PATH``; ``~`` is expanded, because no shell expands it after ``=``.

    Raises:
        ReportError: when there is no ``=``, no such format, no path, or when the format needs a library that is not
            installed.
    """
    name, equals, path = (part.strip() for part in spec.partition("="))
    option = f"--evalcheck-report {spec!r}"
    if not equals:
        known = name if name in FORMATS else "json"
        example = FORMATS[known].example or FORMATS[known].file
        raise ReportError(f"{option} has no path: write FORMAT=PATH, such as {known}={example}")
    try:
        format_of(name)
    except ReportError as error:
        raise ReportError(f"{option}: {error}") from error
    if not path:
        raise ReportError(f"{option} has no path after '='; if you used a variable, it is not set.")
    if more := re.search(rf",\s*((?:{'|'.join(FORMATS)})=.*)", path):
        raise ReportError(
            f"{option} names several reports; give each its own option: "
            f"--evalcheck-report={name}={path[: more.start()]} --evalcheck-report={more[1].partition(',')[0]}"
        )
    if path == "-" and not format_of(name).screen:
        raise ReportError(f"{option} has no path: this format writes a file, such as {name}={format_of(name).file}")
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
        if path == SCREEN:
            continue
        place = path.resolve()
        if place in seen:
            raise ReportError(
                f"the {seen[place]} report and the {name} report have the same path, {str(path)!r}: only the last "
                f"would remain; name another, such as {str(path.with_name(f'evalcheck-{name}{path.suffix}'))!r}."
            )
        seen[place] = name
        _refuse_sources(name, path)
        check_writable(path, format_of(name).file)


def _refuse_sources(name: str, path: Path) -> None:
    wanted = format_of(name)
    problem = f"the {name} report would be written to {str(path)!r}"
    better = str(Path("reports") / wanted.file)
    if path.suffix in _SOURCES:
        raise ReportError(f"{problem}, which is the name of source code or of a configuration; expected {better!r}.")
    if (path.parent / "__init__.py").exists():
        raise ReportError(f"{problem}, inside of a Python package; expected a path outside of it, such as {better!r}.")
    if not wanted.appends and path.is_file() and path.stat().st_size:  # a summary is appended
        with path.open("rb") as file:
            head = file.read(_HEAD)
        if not all(mark in head for mark in wanted.marks):
            raise ReportError(f"{problem}, a file that is not a {name} report of this plugin; expected {better!r}.")


_SOURCES = (".py", ".pyi", ".pyx", ".ipynb", ".toml", ".ini", ".cfg", ".yml", ".yaml")
_HEAD = 4096


def check_writable(path: Path, usual: str = "evalcheck.json") -> None:
    """Check before the run that a report can be written to ``path``; missing parent folders are created.

    ``usual`` is what such a file is called.

    An existing file keeps its content.

    Raises:
        ReportError: names the obstacle.
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

    Raises:
        OSError: when the file cannot be written.
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
