"""The report as a GitHub job summary: Markdown that is appended to ``$GITHUB_STEP_SUMMARY``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_evalcheck.reports import ReportError, groups
from pytest_evalcheck.reports.groups import Naming, Section
from pytest_evalcheck.reports.markdown import code, fenced, linked, prose
from pytest_evalcheck.reports.results import OUTCOMES, Cell, Outcome, Report

LIMIT = 1024 * 1024
"""Bytes of a summary of one step; of a larger one GitHub shows nothing."""

_SYMBOLS: dict[Outcome, str] = dict(zip(OUTCOMES, ("·", "❌", "⚠️", "-", "❔"), strict=True))
_NOTE_ROOM = 300
_NAME = 120


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
    """Append the summary to ``path``, as much of it as the file may still hold.

    Raises `ReportError` when not even the counts fit, and `OSError` when the place cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    there = path.stat().st_size if path.is_file() else 0
    data = render(report, limit=LIMIT - there - 2).encode()
    with path.open("ab") as file:
        file.write(b"\n\n" + data if there else data)


def render(report: Report, *, limit: int = LIMIT) -> str:
    """The summary in Markdown, in at most ``limit`` bytes of UTF-8.

    What does not fit is left out, failures' screens before lists and tables, and a line at the end says so.
    Raises `ReportError` when not even the counts fit.
    """
    blocks = list(_blocks(report))
    room = limit if sum(block.size for block in blocks) <= limit else limit - _NOTE_ROOM
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
        counts = ", ".join(groups.plural(names.count(name), name) for name in dict.fromkeys(names))
        texts.append(f"*Left out, because GitHub shows at most 1 MiB: {counts}.*")
    return "\n\n".join(texts) + "\n"


def _blocks(report: Report) -> Iterator[_Block]:
    naming = Naming(report)
    yield _Block("heading", f"## evalcheck: {groups.verdict(report)}\n\n**{report.denominator}**", 0)
    for section in groups.sections(report):
        yield _Block("table", _table(section), 3)
    if report.cells:
        seen = (outcome for outcome in OUTCOMES if report.count(outcome))
        yield _Block("legend", " &nbsp; ".join(f"{_SYMBOLS[outcome]} {outcome}" for outcome in seen), 1)
    yield from _broken(report, naming)
    yield from _list("Known failures", [(_known(c), c) for c in groups.because(report.of("known"))], naming)
    yield from _list("Not shown", [(_missed(c), c) for c in groups.unreached(report)], naming)
    yield from _list("Not run", [(_reason(c), c) for c in groups.because(report.of("not run"))], naming)


def _table(section: Section) -> str:
    head = [code(section.title, limit=_NAME) if section.title else "target", *map(prose, section.codes)]
    rows = [head, ["---", *(":-:" for _ in section.codes)]]
    for row in section.rows:
        cells = (row.cells.get(each) for each in section.codes)
        rows.append([code(row.name, limit=_NAME), *(_SYMBOLS[cell.outcome] if cell else "" for cell in cells)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _broken(report: Report, naming: Naming) -> Iterator[_Block]:
    causes = groups.causes(report)
    if causes:
        yield _Block("heading", f"### Broken: {groups.plural(len(causes), 'cause')}", 1)
    for cells in causes:
        title = prose(cells[0].cause) or prose(groups.promise(cells[0]))
        entries = (f"- {prose(alike[0].reason)}\n{_where(alike, naming)}" for alike in groups.because(cells))
        yield _Block("cause", "\n".join([f"**{title}**\n", *entries]), 2)
        first = cells[0]
        shown = f"{groups.code(first)} {first.target} on {first.device}"
        parts = [
            f"<details><summary>The failure: {code(shown)}</summary>",
            fenced(first.screen or first.reason),
        ]
        if first.reproduce and first.reproduce not in first.screen:
            parts.append(fenced(first.reproduce, "sh"))
        yield _Block("failure screen", "\n\n".join([*parts, "</details>"]), 4)


def _list(title: str, entries: Sequence[tuple[str, Sequence[Cell]]], naming: Naming) -> Iterator[_Block]:
    if entries:
        count = groups.plural(sum(len(cells) for _, cells in entries), "cell")
        yield _Block("heading", f"### {title}: {count}", 1)
    for text, cells in entries:
        yield _Block("entry", f"- {text}\n{_where(cells, naming)}", 2)


def _where(cells: Sequence[Cell], naming: Naming) -> str:
    return "\n".join(f"  - {prose(entry)}" for entry in naming.where(cells))


def _known(cells: Sequence[Cell]) -> str:
    see = linked(cells[0].see) or "no upstream report found"
    what = prose(cells[0].reason) or prose(groups.promise(cells[0]))
    return f"{what} ({see})"


def _missed(cells: Sequence[Cell]) -> str:
    return prose(f"{groups.promise(cells[0])} {groups.missed(cells[0])}")


def _reason(cells: Sequence[Cell]) -> str:
    return prose(cells[0].reason) or "no reason was given"
