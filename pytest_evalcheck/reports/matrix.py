"""The matrix of targets and promises, and the list that stands for it where a terminal is too narrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_evalcheck.reports.groups import Row, Section, ranges, sections
from pytest_evalcheck.reports.page import BOLD, LIGHT, MARKUP, PLAIN, Line, Page, Segment
from pytest_evalcheck.reports.results import OUTCOMES, Outcome, Report
from pytest_evalcheck.reports.text import columns, pad

_SHORTEST_NAME = 24
"""To how few columns a name may be clipped before the matrix becomes a list."""
_WORTH_LISTING: tuple[Outcome, ...] = ("broken", "known", "not run")


def matrix(page: Page, report: Report) -> Iterator[Line]:
    """One row a target and one column a code, for each file, and the legend."""
    parts = sections(report)
    if not parts:
        return
    layout = _layout(page, parts)
    for part in parts:
        yield from _table(page, part, layout) if layout else _list(page, part)
    seen = (outcome for outcome in OUTCOMES if report.count(outcome))
    yield from page.flow((f"{page.symbol(outcome)} {outcome}", MARKUP[outcome]) for outcome in seen)


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """How wide the names are, and whether columns are headed ``EC2 01 02`` in place of ``EC201 EC202``."""

    name: int
    short: bool


def _layout(page: Page, parts: Sequence[Section]) -> _Layout | None:
    names = 2 + max(columns(page.line(row.name)) for part in parts for row in part.rows)
    for short in (False, True):
        room = page.width - max(_taken(page, part, short) for part in parts)
        least = min(names, _SHORTEST_NAME) if short else names
        if room >= max([least, *(columns(_codes(page, part, short)[0]) for part in parts)]):
            heads = (_head(page, part, short) for part in parts)
            return _Layout(name=min(max([names, *(head for head in heads if head <= room)]), room), short=short)
    return None


def _head(page: Page, part: Section, short: bool) -> int:
    """What it takes to have the title of a part on the line of its column heads."""
    return columns(page.line(part.title)) + columns(_codes(page, part, short)[0]) + 2


def _taken(page: Page, part: Section, short: bool) -> int:
    return sum(columns(code) + 1 for code in _codes(page, part, short)[1])


def _codes(page: Page, part: Section, short: bool) -> tuple[str, list[str]]:
    """What all column heads begin with, and what is left of each of them."""
    codes = [page.line(code) for code in part.codes]
    cut = 0
    if short:
        alike = [len(set(characters)) == 1 for characters in zip(*codes, strict=False)]
        cut = max(0, min([*alike, False].index(False), *(len(code) - 2 for code in codes)))
    return codes[0][:cut], [code[cut:] for code in codes]


def _table(page: Page, part: Section, layout: _Layout) -> Iterator[Line]:
    prefix, codes = _codes(page, part, layout.short)
    title = page.line(part.title)
    heads = ("".join(f" {code}" for code in codes), LIGHT)
    if _head(page, part, layout.short) <= layout.name:
        yield (pad(title, layout.name - columns(prefix)), BOLD), (prefix, LIGHT), heads
    else:
        yield ((page.clip(title, middle=True), BOLD),)
        yield (pad("", layout.name - columns(prefix)), PLAIN), (prefix, LIGHT), heads
    for row in part.rows:
        name = "  " + page.clip(page.line(row.name), layout.name - 2, middle=True)
        yield (pad(name, layout.name), PLAIN), *_symbols(page, part, row, codes)


def _symbols(page: Page, part: Section, row: Row, codes: Sequence[str]) -> Iterator[Segment]:
    for code, head in zip(part.codes, codes, strict=True):
        cell = row.cells.get(code)
        symbol, markup = (page.symbol(cell.outcome), MARKUP[cell.outcome]) if cell else (" ", PLAIN)
        yield symbol.center(columns(head)).rjust(columns(head) + 1), markup


def _list(page: Page, part: Section) -> Iterator[Line]:
    if part.title:
        yield ((page.clip(page.line(part.title), middle=True), BOLD),)
    for row in part.rows:
        name = page.clip(page.line(row.name), page.width - 2, middle=True)
        by = {o: [code for code, cell in row.cells.items() if cell.outcome == o] for o in OUTCOMES}
        items: list[Segment] = [(name, PLAIN)]
        for outcome in _WORTH_LISTING:
            entries = (page.line(f"{page.symbol(outcome)} {each}") for each in ranges(by[outcome]))
            items.extend((page.clip(entry, page.width - 4), MARKUP[outcome]) for entry in entries)
        if len(items) == 1:
            rest: Outcome = "kept" if by["kept"] else "not applicable"
            items.append((f"{page.symbol(rest)} {len(by[rest])} {rest}", MARKUP[rest]))
        yield from page.flow(items, indent="  ", hang="    ")
