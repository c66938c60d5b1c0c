"""Views of a `Report`: which there are, and where ``--evalcheck-report FORMAT=PATH`` writes them.

A view depends on `pytest_evalcheck.reports.results` and the standard library alone, HTML on jinja2 too, and is
imported when it is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path

from pytest_evalcheck.reports.results import Report

Writer = Callable[[Report, Path], None]


class ReportError(ValueError):
    """A report that cannot be written or read; its message is one sentence for the user."""


def _json(report: Report, path: Path) -> None:
    from pytest_evalcheck.reports.json import write

    write(report, path)


def _github(report: Report, path: Path) -> None:
    from pytest_evalcheck.reports.github import write

    write(report, path)


def _html(report: Report, path: Path) -> None:
    from pytest_evalcheck.reports.html import write

    write(report, path)


FORMATS: Mapping[str, Writer] = {"json": _json, "github": _github, "html": _html}
"""What ``FORMAT`` may be, and the function that writes it; it raises `ReportError` or `OSError`."""


def parse(spec: str) -> tuple[str, Path]:
    """The format and the path of ``FORMAT=PATH``; ``~`` is expanded, since no shell does it behind ``=``.

    Raises `ReportError` when there is no ``=``, no such format, or no path.
    """
    name, equals, path = (part.strip() for part in spec.partition("="))
    asked = f"--evalcheck-report {spec!r}"
    if not equals:
        example = _EXAMPLES.get(name, _EXAMPLES["json"])
        raise ReportError(f"{asked} has no path: write FORMAT=PATH, such as {example}")
    if name not in FORMATS:
        near = get_close_matches(name.lower(), FORMATS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(FORMATS)}."
        raise ReportError(f"{asked} names the unknown format {name!r}; {hint}")
    if not path:
        raise ReportError(f"{asked} has nothing behind '='; if a variable stood there, it is not set.")
    return name, Path(path).expanduser()


_EXAMPLES = {"json": "json=evalcheck.json", "github": 'github="$GITHUB_STEP_SUMMARY"', "html": "html=evalcheck.html"}


def check_writable(path: Path) -> None:
    """Find out before the run that a report can be written to ``path``; missing parent folders are made.

    What is there already is left as it is. Raises `ReportError`, which names what is in the way.
    """
    asked = f"the report {str(path)!r} cannot be written"
    try:
        if path.is_dir():
            raise ReportError(f"{asked}: it is a folder; name a file, such as {str(path / 'evalcheck.json')!r}.")
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            with path.open("ab"):
                pass
        elif path.exists():  # a pipe, whose opening could wait for a reader
            if not os.access(path, os.W_OK):
                raise PermissionError("no permission to write there")
        else:
            made = Path(os.path.realpath(path))
            with made.open("xb"):
                pass
            made.unlink()
    except FileExistsError as error:
        raise ReportError(f"{asked}: {error.filename!r} is a file, not a folder.") from error
    except OSError as error:
        raise ReportError(f"{asked}: {error.strerror or error} ({str(path.parent)!r}).") from error
