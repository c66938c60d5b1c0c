"""The report as lines of a terminal: the matrix, whatever is not kept, and the denominator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from pytest_evalcheck.reports import groups
from pytest_evalcheck.reports.matrix import matrix
from pytest_evalcheck.reports.measured import measured
from pytest_evalcheck.reports.page import BOLD, LIGHT, MARKUP, PLAIN, Line, Page
from pytest_evalcheck.reports.results import Cell, Outcome, Report

_INDENT = "    "
_NARROWEST = 32
_MOST_NAMES = 8
_MOST_REASONS = 3
_MOST_LINES = 3
_WORTH_LISTING = 0.01


def render(
    report: Report,
    *,
    width: int,
    color: bool = False,
    unicode: bool = True,
    verbosity: int = 0,
    slowest: int = 5,
    untried: Iterable[str] = (),
) -> Iterator[Line]:
    """The lines of ``report`` for a terminal of ``width`` columns.

    ``verbosity`` is pytest's: below 0 only what is broken or known and the denominator, below -1 the
    denominator alone, above 0 no list is shortened and what is not applicable is there with its reasons.
    ``slowest`` is how many cells are listed with their time, ``untried`` the targets that are an error as no
    promise of theirs was tried. Without ``color`` there is no markup; the symbols differ anyway. Without
    ``unicode`` all is ASCII. No line is wider than ``width`` (32 at least), except the commands, the upstream
    links and the denominator, which are there to be copied and searched for.
    """
    page = Page(width=max(width, _NARROWEST), unicode=unicode, verbosity=verbosity)
    for line in _lines(page, report, slowest, sorted(untried)):
        yield line if color else tuple((segment, PLAIN) for segment, _ in line)


def emit(lines: Iterable[Line], write: Callable[..., object]) -> None:
    """Write ``lines`` with ``write(text, **markup)``, such as the method of pytest's terminal reporter."""
    for line in lines:
        for segment, markup in line:
            write(segment, **markup)
        write("\n")


def text(report: Report, *, width: int = 100, unicode: bool = True, verbosity: int = 0) -> str:
    """What `render` gives for the report of a whole run, as one text without markup."""
    lines = render(report, width=width, unicode=unicode, verbosity=verbosity, untried=report.untried)
    return "\n".join("".join(segment for segment, _ in line).rstrip() for line in lines)


def _lines(page: Page, report: Report, slowest: int, untried: Sequence[str]) -> Iterator[Line]:
    naming = groups.Naming(report)
    if page.verbosity >= 0:
        blocks = [
            matrix(page, report),
            _broken(page, naming, report),
            _known(page, naming, report),
            _unreached(page, naming, report),
            _reasons(page, naming, report, "not run"),
            _reasons(page, naming, report, "not applicable") if page.verbosity else iter(()),
            measured(page, report),
            _slowest(page, naming, report, slowest),
        ]
        for block in blocks:
            lines = list(block)
            yield from [*lines, ()] if lines else []
    elif page.verbosity == -1:
        for cells in (*groups.causes(report), *groups.because(report.of("known"))):
            yield from _brief(page, naming, cells)
    if page.verbosity > -2:
        for target in untried:
            error = f"ERROR: no promise of {target} was tried, so nothing is known about it"
            yield from ((((line, MARKUP["broken"]),)) for ((line, _),) in page.paragraph(error, indent=""))
    green = not report.count("broken") and not untried and any(cell.executed for cell in report.cells)
    yield ((report.denominator, {"bold": True, "green": True} if green else MARKUP["broken"]),)


def _brief(page: Page, naming: groups.Naming, cells: Sequence[Cell]) -> Iterator[Line]:
    first = cells[0]
    more = f" and {len(cells) - 1} more" if len(cells) > 1 else ""
    see = f" ({first.see})" if first.see else ""
    where = f"{groups.code(first)} {naming.targets([first])}{more}{see}"
    what = ": ".join(part for part in (where, first.cause, first.reason) if part)
    yield from _item(page, first.outcome, what, indent="", most=2)


def _broken(page: Page, naming: groups.Naming, report: Report) -> Iterator[Line]:
    causes = groups.causes(report)
    if causes:
        yield _title(page, "Broken", f"{_cells(causes)}, {groups.plural(len(causes), 'cause')}")
    for cells in causes:
        yield from _item(page, "broken", cells[0].cause or groups.promise(cells[0]))
        reasons = groups.because(cells)
        listed = reasons[: _MOST_REASONS if page.verbosity < 1 else None]
        for alike in listed:
            if alike[0].cause:
                yield from _where(page, naming, alike)
            else:
                yield from page.paragraph(naming.targets(alike), indent=_INDENT)
            yield from page.paragraph(alike[0].reason, indent=_INDENT, most=_MOST_LINES)
            if alike[0].reproduce:
                yield (_INDENT, PLAIN), (page.line(alike[0].reproduce), LIGHT)
        if rest := sum(map(len, reasons[len(listed) :])):
            yield ((f"{_INDENT}and {groups.plural(rest, 'cell')} more", PLAIN),)


def _known(page: Page, naming: groups.Naming, report: Report) -> Iterator[Line]:
    reports = groups.because(report.of("known"))
    if reports:
        yield _title(page, "Known failures", _cells(reports))
    for cells in reports:
        yield from _item(page, "known", cells[0].reason or groups.promise(cells[0]))
        yield (_INDENT, PLAIN), (page.line(cells[0].see) or "no upstream report found", LIGHT)
        yield from _where(page, naming, cells)


def _unreached(page: Page, naming: groups.Naming, report: Report) -> Iterator[Line]:
    for cells in groups.unreached(report):
        where = naming.targets(cells, most=_most_names(page))
        claim = f"not shown: {groups.promise(cells[0])} {groups.missed(cells[0])} ({where})"
        yield from page.paragraph(claim, indent="", hang=_INDENT)


def _reasons(page: Page, naming: groups.Naming, report: Report, outcome: Outcome) -> Iterator[Line]:
    reasons = groups.because(report.of(outcome))
    if reasons:
        yield _title(page, outcome.capitalize(), _cells(reasons))
    for cells in reasons:
        yield from _item(page, outcome, cells[0].reason)
        yield from _where(page, naming, cells)


def _slowest(page: Page, naming: groups.Naming, report: Report, count: int) -> Iterator[Line]:
    cells = [cell for cell in groups.ordered(report.cells) if cell.seconds >= _WORTH_LISTING]
    cells = sorted(cells, key=lambda cell: -cell.seconds)[:count]
    if cells:
        yield (("Slowest", BOLD),)
    for cell in cells:
        name = page.line(f"{groups.code(cell)} {naming.targets([cell])}")
        yield ((page.clip(f"{cell.seconds:8.2f} s  {name}", middle=True), PLAIN),)


def _title(page: Page, name: str, count: str) -> Line:
    return (f"{name}: ", BOLD), (page.clip(count, page.width - len(name) - 2), PLAIN)


def _item(page: Page, outcome: Outcome, title: str, *, indent: str = "  ", most: int | None = None) -> Iterator[Line]:
    words = page.line(title) or "no reason was given"
    ((first, _),), *rest = page.paragraph(words, indent=indent + "  ", most=most)
    yield (indent, PLAIN), (page.symbol(outcome), MARKUP[outcome]), (first[len(indent) + 1 :], PLAIN)
    yield from rest


def _where(page: Page, naming: groups.Naming, cells: Sequence[Cell]) -> Iterator[Line]:
    for entry in naming.where(cells, most=_most_names(page)):
        yield from page.paragraph(entry, indent=_INDENT, hang="  ")


def _most_names(page: Page) -> int | None:
    return _MOST_NAMES if page.verbosity < 1 else None


def _cells(parts: Sequence[Sequence[Cell]]) -> str:
    return groups.plural(sum(map(len, parts)), "cell")
