"""Notes beside the report, in lines that are no wider than the terminal."""

from __future__ import annotations

import os
from typing import Any

from pytest_evalcheck.reports.failure_text import folded
from pytest_evalcheck.reports.results import MOST_REASONS, Verdict
from pytest_evalcheck.reports.text import clip, columns, fold

_HANG = "    "


def folds(writer: Any) -> bool:
    """Return whether lines fit a width: a log that is no terminal has whole lines, which are searched and copied."""
    if writer is None:  # of a reporter that is not pytest's
        return False
    if getattr(writer._file, "isatty", bool)():
        return True
    # readline, which pytest imports, sets it for child processes such as the workers of xdist.
    return "COLUMNS" in os.environ and "PYTEST_XDIST_WORKER" not in os.environ


def write_note(reporter: Any, text: str, **markup: bool) -> None:
    """Write a line of any length."""
    writer: Any = getattr(reporter, "_tw", None)
    for part in text.split("\n"):
        for each in fold(part, writer.fullwidth, hang=_HANG) if folds(writer) else [part]:
            reporter.write_line(each, **markup)


def write_verdict(reporter: Any, verdict: Verdict) -> None:
    """Write the last line, which stays one: with as many reasons as fit."""
    writer: Any = getattr(reporter, "_tw", None)
    text = verdict.line
    if folds(writer):
        width = writer.fullwidth
        lines = [verdict.naming(most) for most in range(MOST_REASONS, 0, -1)]
        text = next((one for one in lines if columns(one) <= width), clip(lines[-1], width))
    reporter.write_line(text, bold=True, **{"green" if verdict.ok else "red": True})


def headline(writer: Any, text: str) -> str:
    """Return the name of a failure for a line that is filled up at both sides."""
    return clip(text, max(writer.fullwidth - 4, 8), middle=True) if folds(writer) else text


class FoldingWriter:
    """A writer of a terminal that folds the lines of a failure."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def write(self, text: str, **more: Any) -> None:
        """Write lines, or a part of one."""
        self._writer.write("\n".join(folded(text, self._writer.fullwidth)), **more)

    def line(self, text: str = "", **markup: bool) -> None:
        """Write lines."""
        self.write(f"{text}\n", **markup)
