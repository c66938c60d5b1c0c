"""The report as one HTML file that needs nothing else: no network, no script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from pytest_evalcheck.reports import groups, plot, variants
from pytest_evalcheck.reports.files import put
from pytest_evalcheck.reports.groups import Naming
from pytest_evalcheck.reports.json import versions
from pytest_evalcheck.reports.results import OUTCOMES, Cell, Outcome, Report
from pytest_evalcheck.reports.text import body, clip, line, references

SYMBOLS: dict[Outcome, str] = dict(zip(OUTCOMES, ("·", "✗", "!", "-", "?"), strict=True))
_LONGEST = 10_000
_LONGEST_SCREEN = 50_000


@dataclass(frozen=True)
class Column:
    """One promise on one device."""

    code: str
    device: str
    promise: str


@dataclass(frozen=True)
class Line:
    """One target: its cells, one a column, None where the promise is not one of its kind."""

    name: str
    cells: Sequence[Cell | None]


@dataclass(frozen=True)
class Table:
    """The part of the matrix that one file makes."""

    title: str
    columns: Sequence[Column]
    lines: Sequence[Line]


def write(report: Report, path: Path) -> None:
    """Write the page to ``path`` in UTF-8.

    Raises `OSError` when the place cannot be written.
    """
    put(render(report).encode("utf-8", "backslashreplace"), path)


def render(report: Report) -> str:
    """The page: the counts, the matrix, every failure's screen, and what is known, missing or was not run."""
    naming = Naming(report)
    failures = [cells for alike in groups.causes(report) for cells in groups.because(alike)]
    places = {id(cell): place for place, cells in enumerate(failures, 1) for cell in cells}
    made = _environment().get_template("page.html.j2")
    return made.render(
        verdict=groups.verdict(report),
        report=report,
        counts=[(outcome, report.count(outcome)) for outcome in OUTCOMES],
        symbols=SYMBOLS,
        versions=[(name, version) for name, version in versions().items() if version],
        tables=list(tables(report)),
        variants=variants.comparisons(report),
        plot=plot.plot,
        box=(plot.WIDTH, plot.HEIGHT),
        colours={"within": "kept", "beyond": "broken", "undecided": "known"},
        times=variants.times,
        heads=variants.HEADS,
        cells_of=variants.cells,
        failures=failures,
        place=lambda cell: places.get(id(cell)),
        known=groups.because(report.of("known")),
        unreached=groups.unreached(report),
        not_run=groups.because(report.of("not run")),
        not_applicable=groups.because(report.of("not applicable")),
        where=naming.where,
        promise=groups.promise,
        missed=groups.missed,
        plural=groups.plural,
    )


def tables(report: Report) -> Iterator[Table]:
    """The matrix: a table a file, a line a target, a column a promise and device."""
    for section in groups.sections(report):
        cells = [cell for row in section.rows for cell in row.cells.values()]
        keys = sorted({(groups.code(cell), cell.device) for cell in cells})
        promises = {groups.code(cell): cell.check.replace("_", " ") for cell in cells}
        by_target: dict[str, dict[tuple[str, str], Cell]] = {}
        for cell in cells:
            by_target.setdefault(cell.target, {})[groups.code(cell), cell.device] = cell
        yield Table(
            section.title,
            [Column(code, device, promises[code]) for code, device in keys],
            [
                Line(groups.split(target)[1], [found.get(key) for key in keys])
                for target, found in sorted(by_target.items(), key=lambda item: groups.split(item[0]))
            ],
        )


def _environment() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    made = jinja2.Environment(autoescape=True, loader=loader, trim_blocks=True, lstrip_blocks=True)
    made.filters["line"] = lambda text: clip(line(text), _LONGEST)
    made.filters["screen"] = lambda text: body(text, _LONGEST_SCREEN)
    made.filters["references"] = lambda text: list(references(clip(line(text), _LONGEST)))
    made.filters["firsts"] = _firsts
    return made


def _firsts(cells: Iterable[Cell]) -> list[Cell]:
    """One cell of each screen: those of one cause often refer to the first."""
    found: dict[str, Cell] = {}
    for cell in cells:
        found.setdefault(cell.screen or cell.reason, cell)
    return list(found.values())
