"""The report as the comment of a pull request: counts, and each failure once."""

from __future__ import annotations

from pathlib import Path

from pytest_evalcheck.reports import github, write_file
from pytest_evalcheck.reports.results import Report

LIMIT = 65_536
"""Characters of a comment; GitHub refuses a longer one."""
MARKER = "<!-- pytest-evalcheck -->"
"""The first line of each comment, by which a program finds the one to replace."""


def write(report: Report, path: Path) -> None:
    """Write the comment to ``path``.

    Raises `OSError` when the file cannot be written.
    """
    write_file(render(report).encode(), path)


def render(report: Report, *, limit: int = LIMIT) -> str:
    """The comment in Markdown, in at most ``limit`` characters. A line at its end counts what has no room."""
    text = github.render(report, limit=limit - len(MARKER) - 1, brief=f"{limit:,} characters")
    return f"{MARKER}\n{text}"
