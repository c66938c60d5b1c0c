"""The report as annotations of GitHub Actions: workflow commands, which a job prints.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands describes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from pytest_evalcheck.reports import SCREEN, failure_text, groups, write_file
from pytest_evalcheck.reports.results import Cell, Report
from pytest_evalcheck.reports.sarif import ROOT, Paths
from pytest_evalcheck.reports.severity import mark
from pytest_evalcheck.reports.text import body, clip, line

MOST = 10
"""Annotations of one type that GitHub shows of a step."""
_MAX_TEXT = 2000
_MAX_TITLE = 200


def write(report: Report, path: Path) -> None:
    """Write the commands to ``path``, or to standard output.

    Raises `OSError` when the file cannot be written.
    """
    text = render(report)
    if path != SCREEN:
        write_file(text.encode(), path)
    elif text:
        print(f"\n{text}", end="", flush=True)  # a command begins a line


def render(report: Report, folder: Path | None = None) -> str:
    """The commands, a line each: errors for what fails the run, warnings for incomplete checks.

    Files are relative to the repository that holds ``folder``, which is the working folder by default.
    """
    paths = Paths(folder or Path.cwd())
    lists = groups.lists(report)
    not_run = (cells for cells in lists["Not run"] if not all(map(report.excuses, cells)))
    errors = [_annotation("error", cause.first, len(cause.cells), paths) for cause in report.causes]
    errors += [_annotation("error", cells[0], len(cells), paths) for cells in not_run]
    errors += [_command("error", body(text, _MAX_TEXT), title="evalcheck") for text in report.problems]
    warnings = [_annotation("warning", cells[0], len(cells), paths) for cells in lists["Incomplete"]]
    return "".join(f"{text}\n" for text in (*_most("error", errors), *_most("warning", warnings)))


def _most(level: str, commands: list[str]) -> Iterator[str]:
    shown = commands if len(commands) <= MOST else commands[: MOST - 1]
    yield from shown
    if more := len(commands) - len(shown):
        text = f"{more} more: GitHub shows {MOST} annotations of a type; the log has all"
        yield _command(level, text, title="evalcheck")


def _annotation(level: str, cell: Cell, count: int, paths: Paths) -> str:
    alike = f" (and {count - 1} more of this cause)" if count > 1 else ""
    texts = [f"{cell.target} on {cell.device}: {line(cell.reason) or groups.explanation(cell)}{alike}"]
    if cell.failure and cell.failure.case is not None:
        texts.append("\n".join(failure_text.format_case(cell.failure)))
    texts.append(f"reproduce: {cell.reproduce}" if cell.reproduce else "")
    place = paths.location_of(cell)
    where = {}
    if place and place["artifactLocation"].get("uriBaseId") == ROOT:
        where = {"file": unquote(place["artifactLocation"]["uri"]), "line": str(place["region"]["startLine"])}
    message = "\n".join(body(text, _MAX_TEXT) for text in texts if text)
    return _command(level, message, **where, title=clip(groups.statement(cell) + mark(cell.severity), _MAX_TITLE))


def _command(level: str, message: str, **properties: str) -> str:
    shown = ",".join(f"{name}={_escaped(line(text), ':,')}" for name, text in properties.items())
    return f"::{level} {shown}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    """Text without the characters that end a command, or with ``more`` a property of it."""
    return "".join(f"%{ord(char):02X}" if char in f"%\r\n{more}" else char for char in text)
