"""One failure on one screen."""

from __future__ import annotations

import os
import traceback
from typing import Any

from pytest_evalcheck.expectations.failures import CheckFailure
from pytest_evalcheck.kinds.suite import Check
from pytest_evalcheck.reports.case_codec import case_literal


def screen(
    *,
    where: str,
    made: Check,
    device: str,
    violation: CheckFailure,
    case: Any,
    target: str,
    reproduce: str,
    crossed: str = "",
    note: str = "",
) -> str:
    """The promise, what happened, the smallest input, the user's line, and last how to see it again."""
    kept = "is not kept by" if not getattr(violation, "fault", False) else "could not be tried on"
    lines = [f"{made.code} {made.name}", f"{kept} {where} on {device}", "", *_indented(made.promise)]
    lines += ["", *_indented(str(violation))]
    if case is not None:
        lines += ["", "smallest input", *(f"    {line}" for field in case_literal(case) for line in _cut(field))]
    if crossed:
        lines += ["", "between devices", *_indented("\n".join(_first(crossed.splitlines())))]
    lines += [""]
    if not getattr(violation, "fault", False):
        if made.usual_cause:
            lines.append(f"usual cause  {made.usual_cause}")
        if made.fix:
            lines.append(f"fix          {made.fix}")
    if note:
        lines.append(f"note         {note}")
    lines.append(f"target       {target}")
    lines.append(f"reproduce    {reproduce}")
    return "\n".join(lines)


def _indented(text: str) -> list[str]:
    return [f"    {line}".rstrip() for line in text.splitlines()]


def _first(lines: list[str], limit: int = 10) -> list[str]:
    return lines if len(lines) <= limit else [*lines[:limit], f"... and {len(lines) - limit} more lines"]


def _cut(field: str, limit: int = 2000) -> list[str]:
    # A case is small once it is shrunk; one that is not must not bury the rest of the screen.
    return [field if len(field) <= limit else f"{field[:limit]} ...  # {len(field)} characters, whole in the replay"]


def format_exception_location(error: BaseException, file: str) -> str:
    """The error on one line with the innermost line of the user's file, or else of any file."""
    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame for frame in frames if frame.filename == file] or list(frames)
    said = str(error).strip().splitlines()  # not the notes, in which Hypothesis puts its own view of the case
    text = ": ".join([type(error).__name__, *said[:1]])[:300]
    return f"{text}  ({relative(mine[-1].filename)}:{mine[-1].lineno})" if mine else text


def relative(path: str) -> str:
    """A path from the working folder, where that is shorter."""
    try:
        near = os.path.relpath(path)
    except ValueError:  # another drive
        return path
    return near if not near.startswith("..") else path
