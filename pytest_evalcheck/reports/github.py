"""The report as a GitHub job summary: Markdown that is appended to ``$GITHUB_STEP_SUMMARY``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_evalcheck.reports import ReportError, failure_text, groups
from pytest_evalcheck.reports.causes import Cause
from pytest_evalcheck.reports.results import OUTCOMES, Cell, Outcome, Report, plural
from pytest_evalcheck.reports.text import body, clip, line, references

LIMIT = 1024 * 1024
"""Bytes of a summary of one step; of a larger one GitHub shows nothing."""

_SYMBOLS: dict[Outcome, str] = dict(zip(OUTCOMES, ("·", "❌", "⚠️", "⏳", "-", "❔"), strict=True))
_NOTE_SIZE = 300
_MAX_NAME = 120
_MAX_ENTRIES = 50
_RED = ("Incomplete", "Not run")
"""The lists of what fails a run, beside failures."""
_MANY = {"entry": "entries"}
_MAX_LINE = 10_000
_MAX_BLOCK = 20_000
# Characters that can be markup anywhere, and those that can begin a list or a rule at the start of a line.
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#!|&~@:$]|^[-+=]|^[0-9](?=[0-9]{0,8}[.)])")


def prose(text: str, *, limit: int = _MAX_LINE) -> str:
    """Any text on one line without markup; a character reference never is markup (CommonMark 0.31, section 2.5)."""
    return _escaped(clip(line(text), limit))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", text)


def code(text: str, *, limit: int = _MAX_LINE) -> str:
    """Any text on one line, as code; a code span of backticks cannot hold a pipe in a table."""
    return f"<code>{prose(text, limit=limit)}</code>"


def fenced(text: str, language: str = "text") -> str:
    """Text of several lines as a block of code, whose fence is longer than any in the text."""
    shown = body(text, _MAX_BLOCK)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"{fence}{language}\n{shown}\n{fence}"


def linked(text: str) -> str:
    """Like `prose`, with ``org/repo#123`` and URLs as links."""
    pieces = references(clip(line(text), _MAX_LINE))
    return "".join(f"[{_escaped(piece)}](<{url}>)" if url else _escaped(piece) for piece, url in pieces)


@dataclass(frozen=True)
class _Block:
    """A part of the summary that is shown as a whole or left out: the higher its rank, the sooner."""

    name: str
    text: str
    rank: int

    @property
    def size(self) -> int:
        return len(self.text.encode()) + 2


def write(report: Report, path: Path) -> None:
    """Append the summary to ``path``, as much of it as the file has room for.

    Raises `ReportError` when not even the counts fit, and `OSError` when the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    size = path.stat().st_size if path.is_file() else 0
    data = render(report, limit=LIMIT - size - 2).encode()
    with path.open("ab") as file:
        file.write(b"\n\n" + data if size else data)


def render(report: Report, *, limit: int = LIMIT, brief: str = "") -> str:
    """The summary in Markdown, in at most ``limit`` bytes of UTF-8.

    ``brief`` leaves out tables and what fails no run: it is the reason for the limit, in words.
    What does not fit is left out: the ends of long lists first, then failures, tables, and causes with the starts of
    lists. A line at the end reports it.
    Raises `ReportError` when not even the counts fit.
    """
    blocks = list(_blocks(report, brief=bool(brief)))
    room = limit if sum(block.size for block in blocks) <= limit else limit - _NOTE_SIZE
    shown = set()
    for index, block in sorted(enumerate(blocks), key=lambda item: item[1].rank):
        if block.size <= room:
            room -= block.size
            shown.add(index)
    if 0 not in shown:
        raise ReportError(f"there is no room for a summary: GitHub shows {LIMIT} bytes of one step.")
    names = [block.name for index, block in enumerate(blocks) if index not in shown]
    texts = [block.text for index, block in enumerate(blocks) if index in shown]
    if names:
        counts = ", ".join(plural(names.count(name), name, _MANY.get(name, "")) for name in dict.fromkeys(names))
        texts.append(f"*Left out, because GitHub shows at most {brief or '1 MiB'}: {counts}.*")
    return "\n\n".join(texts) + "\n"


def _blocks(report: Report, *, brief: bool) -> Iterator[_Block]:
    naming = groups.Naming(report)
    why = f"\n\n{prose(report.verdict.line)}" if brief else ""
    yield _Block("heading", f"## evalcheck: {groups.verdict(report)}\n\n**{report.denominator}**{why}", 0)
    for section in () if brief else groups.sections(report):
        yield _Block("table", _table(section), 3)
    if report.cells and not brief:
        outcomes = (outcome for outcome in OUTCOMES if report.count(outcome))
        yield _Block("legend", " &nbsp; ".join(f"{_SYMBOLS[outcome]} {outcome}" for outcome in outcomes), 1)
    causes = report.causes
    if causes:
        yield _Block(
            "heading", f"### Failed: {plural(report.count('failed'), 'check')}, {plural(len(causes), 'cause')}", 1
        )
    for cause in causes:
        yield _Block("cause", _cause(cause, naming), 2)
        yield _Block("failure", _failure(cause.first), 4)
    for title, groups_of_cells in groups.lists(report).items():
        if groups_of_cells and title != "Not applicable" and (not brief or title in _RED):
            yield _Block("heading", f"### {title}: {plural(sum(map(len, groups_of_cells)), 'check')}", 1)
            for index, cells in enumerate(groups_of_cells):
                known = cells[0].outcome == "known"
                see = f" ({linked(groups.upstream(cells[0]))})" if known else ""
                text = _entry(prose(groups.explanation(cells[0])) + see, cells, naming)
                yield _Block("entry", text, 2 if index < _MAX_ENTRIES else 5)
            if title == "Incomplete":
                yield _Block("advice", prose(groups.MORE_TIME), 2)


def _cause(cause: Cause[Cell], naming: groups.Naming) -> str:
    """The most basic failure, and the other cells below the relation by which they share its cause."""
    lines = [f"**{prose(groups.title(cause))}**\n", _entry(prose(cause.first.reason), cause.alike, naming)]
    for why, cells in cause.others.items():
        entries = groups.entries(cause.first, cells, naming)
        lines += [f"- {prose(why)}:", *(f"  - {prose(text)}" for text, _ in entries[:_MAX_ENTRIES])]
        if left := sum(len(alike) for _, alike in entries[_MAX_ENTRIES:]):
            lines.append(f"  - and {plural(left, 'check')} more")
    return "\n".join(lines)


def _table(section: groups.Section) -> str:
    head = [code(section.title, limit=_MAX_NAME) if section.title else "target", *map(prose, section.codes)]
    rows = [head, ["---", *(":-:" for _ in section.codes)]]
    for row in section.rows:
        cells = (row.cells.get(code) for code in section.codes)
        rows.append([code(row.name, limit=_MAX_NAME), *(_SYMBOLS[cell.outcome] if cell else "" for cell in cells)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _entry(text: str, cells: groups.Cells, naming: groups.Naming) -> str:
    return "\n".join([f"- {text}", *(f"  - {prose(entry)}" for entry in naming.target_lines(cells))])


def _transfer(text: str) -> str:
    return f"{'  ' if text.startswith(' ') else ''}- {prose(text)}"


def _failure(cell: Cell) -> str:
    """One failure, folded: the property, the comparison, the smallest input, and the command that replays it."""
    failure = cell.failure
    place = f"{groups.code(cell)} {cell.target} on {cell.device}"
    parts = [f"<details><summary>The failure: {code(place)}</summary>"]
    if failure is None:
        return "\n\n".join([*parts, prose(cell.reason) or "no reason was given", "</details>"])
    where = f"{code(cell.target)} on {code(cell.device)}"
    parts.append(f"**{prose(groups.statement(cell))}** {failure_text.verdict(cell)} {where}")
    parts += [prose(failure.statement), prose(failure.about)]
    values = {"expected": failure.expected, "actual": failure.actual}
    parts.append("\n".join(f"- {name}: {code(value)}" for name, value in values.items() if value))
    parts.append(fenced(failure.detail) if failure.detail else "")
    if failure.case is not None:
        parts += ["Smallest input:", fenced("\n".join(failure_text.format_case(failure)), "python")]
    if failure.given:
        parts += ["In a plain call:", fenced("\n".join(failure.given))]
    if failure.transfers:
        parts += ["Between devices:", "\n".join(_transfer(text) for text in failure_text.shown_transfers(failure))]
    parts.append("\n".join(f"- {name}: {prose(text)}" for name, text in failure_text.notes(failure).items()))
    parts.append(fenced(failure.reproduce, "sh") if failure.reproduce else "")
    parts.append(fenced(failure.traceback) if failure.traceback else "")
    return "\n\n".join([*filter(None, parts), "</details>"])
