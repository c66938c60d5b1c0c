"""The report as one HTML file that needs nothing else: no network, and no script to be read.

Everything is in the markup. The script of the page reads the matrix, which has every cell once, and hides what a filter
leaves out; see docs/design.md.
"""

from __future__ import annotations

import functools
import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import jinja2
from markupsafe import Markup

from pytest_evalcheck import upstream
from pytest_evalcheck.reports import failure_text, groups, variants, write_file
from pytest_evalcheck.reports.addresses import check_page, finding_page
from pytest_evalcheck.reports.causes import Cause
from pytest_evalcheck.reports.json import versions
from pytest_evalcheck.reports.libraries import Libraries
from pytest_evalcheck.reports.results import OUTCOMES, Cell, Outcome, Report, plural
from pytest_evalcheck.reports.severity import mark
from pytest_evalcheck.reports.text import body, clip, line, references

SYMBOLS: dict[Outcome, str] = dict(zip(OUTCOMES, ("·", "✗", "!", "~", "-", "?"), strict=True))
_MAX_LINE = 10_000
_MAX_BLOCK = 50_000
_HERE = Path(__file__).parent
_CODE = re.compile(r"\b[A-Z]{2,}[0-9]{2,4}\b")


def write(report: Report, path: Path) -> None:
    """Write the page to ``path`` in UTF-8.

    Raises `OSError` when the file cannot be written.
    """
    write_file(render(report).encode("utf-8", "backslashreplace"), path)


def render(report: Report) -> str:
    """The page: the counts, every cause with its cells, upstream faults by library, the matrix, and all other lists."""
    return _template().render(
        page=_Page(report),
        report=report,
        counts=[(outcome, report.count(outcome)) for outcome in OUTCOMES],
        symbols=SYMBOLS,
        comparisons=variants.comparisons(report),
        headings=variants.HEADINGS,
        groups=groups,
        plural=plural,
        mark=mark,
        failure_text=failure_text,
        check_page=check_page,
        style=_source("page.css"),
        script=_source("page.js"),
    )


@dataclass(frozen=True)
class _Entry:
    """Cells with one explanation: an entry of a list, to which they link in the matrix."""

    anchor: str
    cells: groups.Cells

    @property
    def explanation(self) -> str:
        """The common explanation of the cells; the heading above it says that a fault is known upstream."""
        told = groups.explanation(self.cells[0]).replace("known upstream: ", "")
        return "; ".join(filter(None, [told, groups.mended_by(self.cells[0])]))

    @property
    def codes(self) -> str:
        """``EC201 EC203``, or how many where there are more than fit before a line."""
        codes = {groups.code(cell) for cell in self.cells}
        found = groups.ranges(codes)
        return " ".join(found) if len(found) <= 2 else plural(len(codes), "code")

    @property
    def fault(self) -> upstream.Fault | None:
        return upstream.find(self.cells[0].upstream)

    @property
    def finding(self) -> str:
        """The address of the page that describes the fault; empty where there is none."""
        return finding_page(self.fault.finding) if self.fault else ""

    @property
    def reports(self) -> Mapping[str, str]:
        """The addresses of its upstream reports, by how they are shown: ``torchmetrics#3487``."""
        found = references(clip(line(self.cells[0].see), _MAX_LINE))
        return {text if text == url else text.partition("/")[2]: url for text, url in found if url}


@dataclass(frozen=True)
class _Library:
    """The known failures of one library."""

    name: str
    version: str
    anchor: str
    entries: tuple[_Entry, ...]

    @property
    def cells(self) -> int:
        return sum(len(entry.cells) for entry in self.entries)

    @property
    def reports(self) -> Mapping[str, str]:
        """The addresses of the reports of all its faults. A repository is named once: ``harness#12``, ``#34``."""
        found = {url: text for entry in self.entries for text, url in entry.reports.items()}
        named = {self.name}
        shown = {}
        for url, text in sorted(found.items(), key=lambda item: (len(item[0]), item[0])):
            repository, mark, number = text.partition("#")
            shown[f"#{number}" if mark and repository in named else text] = url
            named.add(repository)
        return shown

    @property
    def unreported(self) -> int:
        return sum(not entry.reports for entry in self.entries)


class _Page:
    """The parts of a report that the template shows."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.libraries = Libraries(report)
        self._naming = groups.Naming(report)
        self.matrices = groups.matrices(report)
        self.lists = {
            title: tuple(_Entry(f"{_slug(title)}-{number}", cells) for number, cells in enumerate(found, 1))
            for title, found in groups.lists(report).items()
        }
        entries = [entry for found in self.lists.values() for entry in found]
        self._anchors = {id(cell): entry.anchor for entry in entries for cell in entry.cells}
        for number, cause in enumerate(report.causes, 1):
            self._anchors.update((id(cell), f"failure-{number}") for cell in cause.cells)

    @property
    def versions(self) -> list[tuple[str, str]]:
        """The versions of the run, by distribution."""
        return [(name, version) for name, version in self._versions.items() if version]

    @cached_property
    def _versions(self) -> Mapping[str, str | None]:
        run = self._report.run
        return run.versions if run and run.versions else versions()

    @property
    def known(self) -> list[_Library]:
        """The known failures by library, that with the most faults first."""
        found: dict[str, list[_Entry]] = {}
        for entry in self.lists["Known failures"]:
            found.setdefault(self.libraries.of(entry.cells[0]), []).append(entry)
        ranked = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
        return [
            _Library(name, self._versions.get(name) or "", f"library-{number}", tuple(entries))
            for number, (name, entries) in enumerate(ranked, 1)
        ]

    def anchor(self, cell: Cell) -> str:
        """The entry that explains the cell; empty where there is nothing to explain."""
        return self._anchors.get(id(cell), "")

    def runs(self, row: groups.Row, codes: Iterable[str]) -> Iterator[tuple[Cell | None, int]]:
        """The cells of a row, and how many columns follow each other without one."""
        empty = 0
        for code in codes:
            cell = row.cells.get(code)
            if cell is None:
                empty += 1
                continue
            if empty:
                yield None, empty
                empty = 0
            yield cell, 1
        if empty:
            yield None, empty

    def seconds(self, row: groups.Row) -> float:
        """Return the seconds of the cells of a row."""
        return round(sum(cell.seconds for cell in row.cells.values()), 2)

    def target_lines(self, cells: groups.Cells) -> list[str]:
        """The targets of some cells, one entry per set of codes."""
        return self._naming.target_lines(cells)

    def others(self, cause: Cause[Cell]) -> dict[str, list[tuple[str, Cell | None]]]:
        """The other cells of a cause by why they are there: a line each, and the first that has a failure to show."""
        return {
            why: [
                (text, next((cell for cell in alike if cell.failure), None))
                for text, alike in groups.entries(cause.first, cells, self._naming)
            ]
            for why, cells in cause.others.items()
        }


def _slug(title: str) -> str:
    return title.lower().replace(" ", "-")


def _codes(text: str) -> Markup:
    """A line in which each code leads to the page of its check."""

    def linked(match: re.Match[str]) -> str:
        page = check_page(match[0])
        return Markup('<a href="{}">{}</a>').format(page, match[0]) if page else match[0]

    codes, colon, rest = clip(line(text), _MAX_LINE).partition(":")
    return Markup(_CODE.sub(linked, str(Markup.escape(codes)))) + colon + rest


def _source(name: str) -> Markup:
    return Markup((_HERE / name).read_text(encoding="utf-8").strip())


def digest(text: str) -> str:
    """Return the name of a script or style in a content security policy."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@functools.cache
def _template() -> jinja2.Template:
    loader = jinja2.FileSystemLoader(_HERE)
    environment = jinja2.Environment(autoescape=True, loader=loader, trim_blocks=True, lstrip_blocks=True)
    environment.filters["line"] = lambda text: clip(line(text), _MAX_LINE)
    environment.filters["block"] = lambda text: body(text, _MAX_BLOCK)
    environment.filters["codes"] = _codes
    environment.filters["slug"] = _slug
    environment.filters["digest"] = digest
    environment.filters["references"] = lambda text: list(references(clip(line(text), _MAX_LINE)))
    return environment.get_template("page.html.j2")
