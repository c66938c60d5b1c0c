"""The table of variants in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_evalcheck.reports.groups import plural
from pytest_evalcheck.reports.page import BOLD, LIGHT, MARKUP, PLAIN, Line, Markup, Page
from pytest_evalcheck.reports.results import Report
from pytest_evalcheck.reports.text import columns, pad
from pytest_evalcheck.reports.variants import HEADS, Comparison, cells, comparisons

_MOST_TARGETS = 6
_LONGEST_NAME = 28
_BY_IMPORTANCE = (2, 4, 1, 3)
"""The columns of figures: speed-up, ratio of memory, samples a second, memory."""
_MARKUP: dict[str, Markup] = {"beyond": MARKUP["broken"], "undecided": MARKUP["known"]}


def measured(page: Page, report: Report) -> Iterator[Line]:
    """What variants cost beside the plain configuration: a table a target, unless there are many of these."""
    found = comparisons(report)
    if not found:
        return
    yield (
        ("Variants: ", BOLD),
        (page.clip("speed and memory, measured in turns in this run and not judged", page.width - 10), PLAIN),
    )
    shown = found if page.verbosity > 0 else found[:_MOST_TARGETS]
    for made in shown:
        yield from _table(page, made)
    if len(found) > len(shown):
        yield ((f"  and {plural(len(found) - len(shown), 'target')} more, with -v", PLAIN),)


def _table(page: Page, made: Comparison) -> Iterator[Line]:
    device = "" if made.device == "cpu" else f"[{made.device}]"
    yield ((page.clip(f"  {page.line(made.target + device)}, {made.samples}", middle=True), PLAIN),)
    texts = [HEADS, *(tuple(map(page.line, row)) for row in cells(made.rows))]
    names = [page.clip(row[0], _LONGEST_NAME, middle=True) for row in texts]
    wide = max(map(columns, names))
    room = page.width - 4 - wide
    shown = _columns(texts, room)
    room -= sum(figure + 2 for _, figure in shown)
    for place, (name, row) in enumerate(zip(names, texts, strict=True)):
        figures = [" " * (figure - columns(row[at])) + row[at] for at, figure in shown]
        beside = columns(row[-1]) + 2 <= room
        text = "  ".join([pad(name, wide), *figures, *([row[-1]] if beside else [])])
        markup = LIGHT if place == 0 else _MARKUP.get(made.rows[place - 1].verdict, PLAIN)
        yield ((page.clip(f"    {text}".rstrip()), markup),)
        if place and not beside:
            yield from (((line, markup),) for ((line, _),) in page.paragraph(row[-1], indent=" " * 8))


def _columns(texts: Sequence[Sequence[str]], room: int) -> list[tuple[int, int]]:
    """The places and widths of the figures that there is room for, the speed-up first of all."""
    shown: dict[int, int] = {}
    for place in _BY_IMPORTANCE:
        wide = max(columns(row[place]) for row in texts)
        if sum(other + 2 for other in shown.values()) + wide + 2 <= room:
            shown[place] = wide
    return sorted(shown.items())
