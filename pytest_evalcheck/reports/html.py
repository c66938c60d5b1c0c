"""The report as one HTML file that needs nothing else: no network, no script."""

from __future__ import annotations

from pathlib import Path

import jinja2

from pytest_evalcheck.reports import failure_text, groups, variants, write_file
from pytest_evalcheck.reports.json import versions
from pytest_evalcheck.reports.results import OUTCOMES, Outcome, Report, plural
from pytest_evalcheck.reports.text import body, clip, line, references

SYMBOLS: dict[Outcome, str] = dict(zip(OUTCOMES, ("·", "✗", "!", "~", "-", "?"), strict=True))
_MAX_LINE = 10_000
_MAX_BLOCK = 50_000


def write(report: Report, path: Path) -> None:
    """Write the page to ``path`` in UTF-8.

    Raises `OSError` when the file cannot be written.
    """
    write_file(render(report).encode("utf-8", "backslashreplace"), path)


def render(report: Report) -> str:
    """The page: the counts, every cause with its cells, the matrix, variants, and the lists of all that is not kept."""
    numbers = {id(cell): number for number, cause in enumerate(report.causes, 1) for cell in cause.cells}
    naming = groups.Naming(report)
    return _template().render(
        report=report,
        counts=[(outcome, report.count(outcome)) for outcome in OUTCOMES],
        symbols=SYMBOLS,
        versions=[(name, version) for name, version in versions().items() if version],
        others=lambda cause: {
            why: [(text, _with_failures(cells)) for text, cells in groups.entries(cause.first, cells, naming)]
            for why, cells in cause.others.items()
        },
        number_of=lambda cell: numbers.get(id(cell)),
        lists=groups.lists(report),
        where=naming.where,
        comparisons=variants.comparisons(report),
        headings=variants.HEADINGS,
        hint=lambda cell: groups.explanation(cell) if cell.outcome == "incomplete" else cell.reason,
        groups=groups,
        plural=plural,
        failure_text=failure_text,
    )


def _with_failures(cells: groups.Cells) -> groups.Cells:
    """Of cells with one reason, the first that has a failure to show."""
    return tuple(cell for cell in cells if cell.failure)[:1]


def _template() -> jinja2.Template:
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(autoescape=True, loader=loader, trim_blocks=True, lstrip_blocks=True)
    environment.filters["line"] = lambda text: clip(line(text), _MAX_LINE)
    environment.filters["block"] = lambda text: body(text, _MAX_BLOCK)
    environment.filters["references"] = lambda text: list(references(clip(line(text), _MAX_LINE)))
    return environment.get_template("page.html.j2")
