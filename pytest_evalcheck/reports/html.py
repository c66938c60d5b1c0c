"""The report as one HTML file that needs nothing else: no network, no script."""

from __future__ import annotations

from pathlib import Path

import jinja2

from pytest_evalcheck.reports import failure_text, groups, variants, write_file
from pytest_evalcheck.reports.json import versions
from pytest_evalcheck.reports.results import OUTCOMES, Outcome, Report, plural
from pytest_evalcheck.reports.text import body, clip, line, references

SYMBOLS: dict[Outcome, str] = dict(zip(OUTCOMES, ("·", "✗", "!", "-", "?"), strict=True))
_MAX_LINE = 10_000
_MAX_BLOCK = 50_000


def write(report: Report, path: Path) -> None:
    """Write the page to ``path`` in UTF-8.

    Raises `OSError` when the file cannot be written.
    """
    write_file(render(report).encode("utf-8", "backslashreplace"), path)


def render(report: Report) -> str:
    """The page: the counts, every failure, the matrix, variants, and the lists of all that is not kept."""
    failures = [cells for alike in groups.by_cause(report) for cells in groups.by_reason(alike)]
    numbers = {id(cell): number for number, cells in enumerate(failures, 1) for cell in cells}
    return _template().render(
        report=report,
        counts=[(outcome, report.count(outcome)) for outcome in OUTCOMES],
        symbols=SYMBOLS,
        versions=[(name, version) for name, version in versions().items() if version],
        failures=failures,
        number_of=lambda cell: numbers.get(id(cell)),
        lists=groups.lists(report),
        where=groups.Naming(report).where,
        comparisons=variants.comparisons(report),
        headings=variants.HEADINGS,
        groups=groups,
        plural=plural,
        failure_text=failure_text,
    )


def _template() -> jinja2.Template:
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(autoescape=True, loader=loader, trim_blocks=True, lstrip_blocks=True)
    environment.filters["line"] = lambda text: clip(line(text), _MAX_LINE)
    environment.filters["block"] = lambda text: body(text, _MAX_BLOCK)
    environment.filters["references"] = lambda text: list(references(clip(line(text), _MAX_LINE)))
    return environment.get_template("page.html.j2")
