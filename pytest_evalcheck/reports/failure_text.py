"""One failure as text for a terminal, on one screen."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_evalcheck.reports.case_codec import case_literal
from pytest_evalcheck.reports.severity import WORDS
from pytest_evalcheck.reports.text import columns, fold

Cell = Any
"""A `pytest_evalcheck.reports.results.Cell`: its module calls this one, so it is not imported here."""
Failure = Any
"""A `pytest_evalcheck.reports.results.Failure`."""

_MOST_TRANSFERS = 10
_LONGEST_FIELD = 2000


def format_failure(cell: Cell) -> str:
    """The property, what happened, the smallest input, what the target was given, its line, and how to replay it.

    Empty where nothing failed.
    """
    failure = cell.failure
    if failure is None:
        return ""
    where = f"{cell.target} on {cell.device}"
    own = f" (of {failure.own} in the target's file)" if failure.own else ""
    lines = [f"{cell.code} {cell.check}{own}", f"{verdict(cell)} {where}", "", *_indented(failure.statement)]
    lines += ["", *_indented(format_comparison(failure))]
    if failure.case is not None:
        lines += ["", "smallest input", *(f"    {line}" for line in format_case(failure))]
    if failure.given:
        lines += ["", "in an example call", *_indented("\n".join(failure.given))]
    if failure.transfers:
        lines += ["", "between devices", *_indented("\n".join(shown_transfers(failure)))]
    lines.append("")
    severity = {"severity": WORDS[cell.severity]} if cell.severity in WORDS and not failure.untestable else {}
    lines += [f"{name:11}  {text}" for name, text in {**severity, **notes(failure)}.items()]
    lines.append(f"reproduce    {failure.reproduce}")
    text = "\n".join(lines)
    return f"{failure.traceback}\n{text}" if failure.traceback else text


def format_repeated(cell: Cell, first: Cell, why: str) -> str:
    """A failure whose cause was shown in full with the cell ``first``: what it is, why, and how to replay it."""
    lines = [f"{cell.code} {cell.check}: {why}", f"    {cell.reason}"]
    shown = f"{first.code} of {first.target} on {first.device}"
    if cell.failure and cell.failure.origin and cell.failure.origin not in why:
        lines.append(f"raised       {cell.failure.origin}")
    lines.append(f"shown above  {shown}")
    return "\n".join([*lines, f"reproduce    {cell.reproduce}"])


def verdict(cell: Cell) -> str:
    """Return the words for a failure before the name of its target."""
    failure = cell.failure
    if failure is None:
        return "fails for"
    if cell.stale:
        return "is a stale known failure of"
    return "could not be tried on" if failure.untestable else "fails for"


def notes(failure: Failure) -> dict[str, str]:
    """The usual cause and the fix of a property that fails, where its error was raised, and the place of the target.

    What is empty is left out.
    """
    advice = {} if failure.untestable else {"usual cause": failure.usual_cause, "fix": failure.fix}
    places = {"raised": failure.origin, "target": failure.location}
    return {name: text for name, text in {**advice, **places}.items() if text}


def format_comparison(failure: Failure) -> str:
    """Return the comparison, the expected and the actual value, and the detail; a `CheckFailure` has them, too."""
    values = {"expected": failure.expected, "actual": failure.actual}
    lines = [failure.about, *(f"    {name:8}  {value}" for name, value in values.items() if value)]
    return "\n".join([*lines, *(f"    {line}" for line in failure.detail.splitlines())])


def format_case(failure: Failure) -> Iterator[str]:
    """The smallest input as keyword arguments, one a line; a field that is very long is cut."""
    # A case is small once it is shrunk; one that is not must not bury the rest of the screen.
    for field in case_literal(failure.case):
        cut = f"{field[:_LONGEST_FIELD]} ...  # {len(field)} characters, whole in the replay"
        yield field if len(field) <= _LONGEST_FIELD else cut


def shown_transfers(failure: Failure) -> Sequence[str]:
    """The first lines about transfers, and how many more there are."""
    lines = failure.transfers
    more = len(lines) - _MOST_TRANSFERS
    return lines if more <= 0 else [*lines[:_MOST_TRANSFERS], f"... and {more} more lines"]


def folded(text: str, width: int) -> Iterator[str]:
    """The lines of a failure, folded to the columns of a terminal.

    Whole are what is copied as one piece, the command that replays it and names without a space, and source code: lines
    of a traceback. Of the smallest input no string is split.
    """
    case = place = False
    for line in text.split("\n"):
        case = line == "smallest input" or (case and line.startswith(" "))
        code, place = place, bool(_PLACE.match(line))
        if code or place or line.startswith("reproduce "):
            yield line
            continue
        label = _LABEL.match(line)
        beside = columns(label[0]) if label else 0
        indent = len(line) - len(line.lstrip())
        hang = beside if 0 < beside <= width // 2 else indent + 4 * case
        yield from fold(line, width, hang=" " * min(hang, width // 2), code=case)


_LABEL = re.compile(r"\s*(?:usual cause|shown above|expected|actual|target|raised|severity|fix) {2,}")
_PLACE = re.compile(r'\s+File ".*", line \d+')


def _indented(text: str) -> list[str]:
    return [f"    {line}".rstrip() for line in text.splitlines()]
