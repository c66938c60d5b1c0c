"""The report as lines of a terminal: the matrix, all that did not pass, variants, and the denominator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_evalcheck.reports import groups, variants
from pytest_evalcheck.reports.causes import Cause
from pytest_evalcheck.reports.groups import Row, Section
from pytest_evalcheck.reports.results import DECLARED, OUTCOMES, Cell, Outcome, Report, plural
from pytest_evalcheck.reports.text import clip, columns, fold, line, pad, wrap

Markup = Mapping[str, bool]
Segment = tuple[str, Markup]
"""A text and its markup, as the keywords of ``write`` of pytest's terminal reporter."""
Line = tuple[Segment, ...]

PLAIN: Markup = {}
BOLD: Markup = {"bold": True}
LIGHT: Markup = {"light": True}
MARKUP: Mapping[Outcome, Markup] = {
    "passed": {"green": True},
    "failed": {"red": True, "bold": True},
    "known": {"yellow": True},
    "incomplete": {"red": True},
    "not applicable": LIGHT,
    "not run": {"cyan": True},
}
# The symbol of what passed is small, so that the others are seen without colour too.
_ASCII: Mapping[Outcome, str] = dict(zip(OUTCOMES, ".X!~-?", strict=True))
_UNICODE: Mapping[Outcome, str] = {**_ASCII, "passed": "·", "failed": "✗"}

_INDENT = "    "
_MIN_WIDTH = 32
_MAX_ENTRIES = 10
_MAX_CAUSES = 10
"""The most causes that are shown with all that is known; the others are a line each."""
_MAX_BRIEF = 40
"""The most causes that are a line each."""
_MAX_LINES = 3
_MAX_NAMES = 8
_MIN_NAME = 24
"""The fewest columns to which a name is clipped. Where there are fewer, the matrix becomes a list."""
_MAX_VARIANT_TARGETS = 6
_MAX_VARIANT_NAME = 28
_FIGURES = (2, 4, 1, 3)
"""The columns of the table of variants, the most important first: speed-up, ratio of memory, rate, memory."""
_VERDICTS: Mapping[str, Markup] = {"beyond": MARKUP["failed"], "undecided": MARKUP["known"]}


@dataclass(frozen=True, kw_only=True)
class Density:
    """Limits of the parts of a report; with -v nothing is limited."""

    rows: int
    """The most rows of a matrix. Of a larger one only red rows are shown, at most as many."""
    files: int
    """The most files without a red row that are a line each; more of them are one line."""
    entries: int = _MAX_ENTRIES
    brief: bool = False
    """Show an entry of a list as one line."""
    tables: bool = True
    """Show the variants of a target as a table, and not as a line."""


_WHOLE = Density(rows=40, files=10_000)
"""The density of small runs: red rows and those in which something was not run are all shown."""
DENSITIES = (
    _WHOLE,
    Density(rows=24, files=12),
    Density(rows=16, files=8, entries=5, brief=True),
    Density(rows=10, files=4, entries=4, brief=True, tables=False),
    Density(rows=5, files=2, entries=3, brief=True, tables=False),
)
"""The densities from the lowest: the first one is taken in which the parts beside the failures fit."""
MOST_LINES = 44
"""The most lines of all parts but the failures. Pytest and the session write about 12 lines around them."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """``width`` in columns; ``verbosity`` as pytest counts it; without ``unicode`` all is ASCII."""

    width: int
    unicode: bool
    verbosity: int
    density: Density = _WHOLE
    folds: bool = False
    """Fold the denominator like any other line."""
    shown: bool = False
    """Every failure was shown as a whole screen."""

    @property
    def brief(self) -> bool:
        """Show an entry of a list as one line."""
        return self.density.brief and self.verbosity < 1

    def symbol(self, outcome: Outcome) -> str:
        """The one character for an outcome."""
        return (_UNICODE if self.unicode else _ASCII)[outcome]

    def line(self, value: str) -> str:
        """Any text as one line that this terminal can show."""
        return line(value, unicode=self.unicode)

    def clip(self, value: str, limit: int | None = None, *, middle: bool = False) -> str:
        """One line in at most ``limit`` columns, or those of the page."""
        return clip(value, self.width if limit is None else limit, unicode=self.unicode, middle=middle)

    def paragraph(
        self, value: str, *, indent: str, hang: str = "", most: int | None = None, markup: Markup = PLAIN
    ) -> Iterator[Line]:
        """Any text over several lines: ``indent`` before the first, ``indent`` and ``hang`` before the others.

        Over at most ``most`` lines, unless the user asked for a verbose report.
        """
        lines = wrap(self.line(value), self.width, indent=indent, hang=indent + hang)
        if most is not None and self.verbosity < 1 and len(lines) > most:
            lines[most - 1 :] = [self.clip(f"{lines[most - 1]} {lines[most].strip()}")]
        yield from (((text, markup),) for text in lines)

    def flow(self, items: Iterable[Segment], *, indent: str = "", hang: str = "") -> Iterator[Line]:
        """Items side by side, on as many lines as they need; no item is split."""
        current: list[Segment] = [(indent, PLAIN)]
        used = columns(indent)
        for item, markup in items:
            if len(current) > 1 and used + 2 + columns(item) > self.width:
                yield tuple(current)
                current, used = [(hang, PLAIN)], columns(hang)
            gap = "  " if len(current) > 1 else ""
            current += [(gap, PLAIN), (item, markup)]
            used += len(gap) + columns(item)
        yield tuple(current)


def render(
    report: Report,
    *,
    width: int,
    color: bool = False,
    unicode: bool = True,
    verbosity: int = 0,
    untried: Iterable[str] = (),
    folds: bool = False,
    shown: bool = False,
) -> Iterator[Line]:
    """The lines of ``report`` for a terminal of ``width`` columns.

    ``verbosity`` is pytest's: below 0 only what failed or is known and the denominator, below -1 the denominator
    alone; above 0 no list is shortened, and what is not applicable is listed with its reasons. ``untried`` are the
    targets that are an error because no check of theirs was tried. With ``shown`` every failure was shown as a whole
    screen, so that only a verbose report lists them again, by cause.
    Without ``color`` there is no markup; the symbols differ anyway. Without ``unicode`` all is ASCII. No line is wider
    than ``width`` (32 at least), except commands, upstream links and, unless it ``folds``, the denominator, which users
    copy and search.
    """
    page = Page(width=max(width, _MIN_WIDTH), unicode=unicode, verbosity=verbosity, folds=folds, shown=shown)
    for segments in _lines(page, report, sorted(untried)):
        yield segments if color else tuple((segment, PLAIN) for segment, _ in segments)


def emit(lines: Iterable[Line], write: Callable[..., object]) -> None:
    """Write ``lines`` with ``write(text, **markup)``, such as the method of pytest's terminal reporter."""
    for segments in lines:
        for segment, markup in segments:
            write(segment, **markup)
        write("\n")


def text(report: Report, *, width: int = 100, unicode: bool = True, verbosity: int = 0) -> str:
    """The lines of `render` for the report of a whole run, as one text without markup."""
    lines = render(report, width=width, unicode=unicode, verbosity=verbosity, untried=report.untried)
    return "\n".join("".join(segment for segment, _ in segments).rstrip() for segments in lines)


def _lines(page: Page, report: Report, untried: Sequence[str]) -> Iterator[Line]:
    naming = groups.Naming(report)
    if page.verbosity >= 0:
        for lines in _fitting(page, naming, report):
            yield from [*lines, ()]
    elif page.verbosity == -1:
        known = groups.by_fault(report.of("known"))
        causes = () if page.shown else report.causes
        red = [*(cause.cells for cause in causes), *groups.lists(report)["Incomplete"]]
        for cells in (*red, *known[:_MAX_ENTRIES]):
            yield from _brief(page, naming, cells)
        yield from _rest(known[_MAX_ENTRIES:], "without -q")
    if page.verbosity > -2:
        shown = untried if page.verbosity > 0 else untried[:_MAX_ENTRIES]
        for target in shown:
            error = f"ERROR: no check of {target} was tried, so nothing is known about it"
            yield from page.paragraph(error, indent="", markup=MARKUP["failed"])
        if untried[len(shown) :]:
            yield ((f"ERROR: and of {plural(len(untried) - len(shown), 'target')} more, with -v", MARKUP["failed"]),)
    markup = {"bold": True, "green": True} if report.ok else MARKUP["failed"]
    for part in fold(report.denominator, page.width, hang=_INDENT) if page.folds else [report.denominator]:
        yield ((part, markup),)


def _fitting(page: Page, naming: groups.Naming, report: Report) -> list[list[Line]]:
    """The parts that are not empty, as long as fits."""
    lists = groups.lists(report)
    failures = [
        list(_broken(page, naming, report.causes)) if page.verbosity > 0 or not page.shown else [],
        list(_list(page, naming, "Incomplete", lists["Incomplete"], advice=groups.MORE_TIME)),
    ]
    for density in DENSITIES:
        first, *others = map(list, _blocks(replace(page, density=density), naming, report, lists))
        fits = sum(len(lines) + bool(lines) for lines in (first, *others)) <= MOST_LINES
        if fits or page.verbosity > 0:
            break
    return [lines for lines in (first, *failures, *others) if lines]


def _blocks(
    page: Page, naming: groups.Naming, report: Report, lists: Mapping[str, list[groups.Cells]]
) -> Iterator[Iterator[Line]]:
    """All parts but the failures, which are behind the first."""
    yield iter(()) if _is_plain(page, report) else matrix(page, report)
    yield _known(page, naming, lists["Known failures"])
    yield _unreached(page, naming, lists["Not shown"])
    yield _list(page, naming, "Not run", lists["Not run"])
    decided, advice = DECLARED.capitalize(), "Where it is one, write its target: a failure is red then."
    yield _list(page, naming, decided, lists[decided], advice=advice)
    if page.verbosity:
        yield _list(page, naming, "Not applicable", lists["Not applicable"])
    yield _variants(page, variants.comparisons(report))


def _is_plain(page: Page, report: Report) -> bool:
    """Return whether a matrix would say no more than the counts: a short run in which all is well."""
    rows = {(cell.target, cell.device) for cell in report.cells}
    red = report.count("failed") + report.count("incomplete") + report.count("not run")
    return page.verbosity < 1 and not red and len(rows) <= _WHOLE.rows


def _brief(
    page: Page, naming: groups.Naming, cells: Sequence[Cell], *, indent: str = "", most: int = 2
) -> Iterator[Line]:
    first = cells[0]
    more = f" and {len(cells) - 1} more" if len(cells) > 1 else ""
    see = f" ({first.see})" if first.see else ""
    where = f"{groups.code(first)} {naming.targets([first])}{more}{see}"
    what = groups.explanation(first) if first.outcome == "incomplete" else first.reason
    summary = ": ".join(part for part in (where, first.cause, what) if part)
    yield from _item(page, first.outcome, summary, indent=indent, most=most)
    if mends := groups.mended_by(first):
        yield (f"{indent}  ", PLAIN), (mends, LIGHT)


def _broken(page: Page, naming: groups.Naming, causes: Sequence[Cause[Cell]]) -> Iterator[Line]:
    if causes:
        count = plural(sum(len(cause.cells) for cause in causes), "check")
        yield _title(page, "Failed", f"{count}, {plural(len(causes), 'cause')}")
    whole = causes if page.verbosity > 0 else causes[:_MAX_CAUSES]
    rest = causes[len(whole) :]
    for cause in whole:
        first = cause.first
        yield from _item(page, "failed", groups.title(cause))
        if first.cause:
            yield from _target_paragraphs(page, naming, cause.alike)
        else:
            yield from page.paragraph(naming.targets(cause.alike, most=_most_names(page)), indent=_INDENT)
        yield from page.paragraph(first.reason, indent=_INDENT, most=_MAX_LINES)
        if first.failure and first.failure.origin:
            yield from page.paragraph(f"raised: {first.failure.origin}", indent=_INDENT, most=1)
        if first.reproduce:
            yield (_INDENT, PLAIN), (page.line(first.reproduce), LIGHT)
        yield from _others(page, naming, cause)
    for cause in rest[:_MAX_BRIEF]:
        yield from _brief(page, naming, cause.cells, indent="  ", most=1)
    if rest[_MAX_BRIEF:]:
        yield ((f"  and {plural(len(rest) - _MAX_BRIEF, 'cause')} more, with -v", PLAIN),)


def _others(page: Page, naming: groups.Naming, cause: Cause[Cell]) -> Iterator[Line]:
    """The other cells of a cause: a line each, below the relation by which they are here."""
    room = _MAX_ENTRIES if page.verbosity < 1 else len(cause.cells)
    left = sum(map(len, cause.others.values()))
    for why, cells in cause.others.items():
        shown = groups.entries(cause.first, cells, naming)[:room]
        if shown:
            yield from page.paragraph(f"{why}:", indent=_INDENT, hang="  ")
        for text, alike in shown:
            yield from page.paragraph(text, indent=_INDENT + "  ", hang="  ", most=1)
            left -= len(alike)
        room -= len(shown)
    if left:
        yield ((f"{_INDENT}and {plural(left, 'check')} more, with -v", PLAIN),)


def _list(
    page: Page, naming: groups.Naming, title: str, entries: Sequence[groups.Cells], advice: str = ""
) -> Iterator[Line]:
    if entries:
        yield _title(page, title, _count(entries))
    listed = entries[: page.density.entries if page.verbosity < 1 else None]
    for cells in listed:
        if page.brief:
            targets = plural(len({cell.target for cell in cells}), "target")
            where = f": {plural(len(cells), 'check')} of {targets}"
            reason = page.clip(page.line(groups.explanation(cells[0])), page.width - len(where) - 4)
            yield from _item(page, cells[0].outcome, f"{reason}{where}", most=1)
            continue
        yield from _item(page, cells[0].outcome, groups.explanation(cells[0]), most=_MAX_LINES)
        if cells[0].outcome == "known":
            yield (_INDENT, PLAIN), (page.line(groups.upstream(cells[0])), LIGHT)
        yield from _target_paragraphs(page, naming, cells)
    yield from _rest(entries[len(listed) :])
    if entries and advice:
        yield from page.paragraph(advice, indent="  ")


def _known(page: Page, naming: groups.Naming, faults: Sequence[groups.Cells]) -> Iterator[Line]:
    """A line for each fault; with -v also where it is."""
    if page.verbosity > 0:
        yield from _list(page, naming, "Known failures", faults)
        return
    if faults:
        yield _title(page, "Known failures", f"{_count(faults)}, {plural(len(faults), 'cause')}")
    listed = faults[: page.density.entries]
    for cells in listed:
        codes = " ".join(groups.ranges({groups.code(cell) for cell in cells}))
        count, see = plural(len(cells), "check"), page.line(cells[0].see or cells[0].upstream)
        beside = ", ".join(filter(None, [codes, count, see]))
        if columns(beside) > page.width // 2:  # a link is not cut, and needs a line of its own
            beside = f"{codes}, {count}"
        reason = groups.explanation(cells[0]).removeprefix("known upstream: ")
        yield from _item(page, "known", f"{beside}: {reason}", most=1)
        told = "" if beside.endswith(see) else see
        for text in filter(None, [told, groups.mended_by(cells[0])]):
            yield (_INDENT, PLAIN), (text, LIGHT)
    yield from _rest(faults[len(listed) :])


def _rest(entries: Sequence[groups.Cells], how: str = "with -v") -> Iterator[Line]:
    if entries:
        yield ((f"  and {_count(entries)} more, {how}", PLAIN),)


def _unreached(page: Page, naming: groups.Naming, entries: Sequence[groups.Cells]) -> Iterator[Line]:
    shown = entries[: page.density.entries] if page.brief else entries
    for cells in shown:
        where = naming.targets(cells, most=_most_names(page))
        if page.brief:
            where = plural(len({(cell.target, cell.device) for cell in cells}), "row")
        text = f"not shown: {groups.explanation(cells[0])} ({where})"
        yield from page.paragraph(text, indent="", hang=_INDENT, most=1 if page.brief else None)
    yield from _rest(entries[len(shown) :])


def _title(page: Page, name: str, count: str) -> Line:
    return (f"{name}: ", BOLD), (page.clip(count, page.width - len(name) - 2), PLAIN)


def _item(page: Page, outcome: Outcome, title: str, *, indent: str = "  ", most: int | None = None) -> Iterator[Line]:
    words = page.line(title) or "no reason was given"
    ((first, _),), *rest = page.paragraph(words, indent=indent + "  ", most=most)
    yield (indent, PLAIN), (page.symbol(outcome), MARKUP[outcome]), (first[len(indent) + 1 :], PLAIN)
    yield from rest


def _target_paragraphs(page: Page, naming: groups.Naming, cells: Sequence[Cell]) -> Iterator[Line]:
    for entry in naming.target_lines(cells, most=_most_names(page)):
        yield from page.paragraph(entry, indent=_INDENT, hang="  ")


def _most_names(page: Page) -> int | None:
    return _MAX_NAMES if page.verbosity < 1 else None


def _count(entries: Sequence[groups.Cells]) -> str:
    return plural(sum(map(len, entries)), "check")


# The matrix, and the list that replaces it where a terminal is too narrow.


def matrix(page: Page, report: Report) -> Iterator[Line]:
    """One row per target and one column per code, for each file, and the legend."""
    parts = groups.sections(report)
    if not parts:
        return
    whole, density = parts, page.density
    if page.verbosity < 1 and sum(len(part.rows) for part in parts) > density.rows:
        parts = tuple(_to_look_at(whole, density))
    layout = _layout(page, [part for part in parts if part.rows])
    hidden = (len(part.rows) < len(all_of_it.rows) for part, all_of_it in zip(parts, whole, strict=True))
    one_line = sum(hidden) > density.files
    for part, all_of_it in zip(parts, whole, strict=True):
        if part.rows:
            yield from _table(page, part, *layout) if layout else _rows_as_list(page, part)
        if not one_line:
            yield from _folded(page, part, all_of_it)
    if one_line:
        yield from _all_folded(page, parts, whole)
    outcomes = (outcome for outcome in OUTCOMES if report.count(outcome))
    yield from page.flow((f"{page.symbol(outcome)} {outcome}", MARKUP[outcome]) for outcome in outcomes)


def _to_look_at(parts: Iterable[Section], density: Density) -> Iterator[Section]:
    """The rows in which something failed or was not tried."""
    outcomes = {"failed", "incomplete", *(["not run"] if density is _WHOLE else [])}
    left = density.rows
    for part in parts:
        rows = [row for row in part.rows if any(cell.outcome in outcomes for cell in row.cells.values())]
        if density is not _WHOLE:
            rows = rows[:left]
            left -= len(rows)
        yield replace(part, rows=tuple(rows))


def _all_folded(page: Page, parts: Sequence[Section], whole: Sequence[Section]) -> Iterator[Line]:
    """One line in place of all rows that are not shown, of many files."""
    hidden = [
        [row for row in all_of_it.rows if row not in part.rows] for part, all_of_it in zip(parts, whole, strict=True)
    ]
    rows, files = plural(sum(map(len, hidden)), "row"), plural(sum(map(bool, hidden)), "file")
    cells = [cell for each in hidden for row in each for cell in row.cells.values()]
    begin = f"  and {rows} more" if any(part.rows for part in parts) else rows
    yield ((page.clip(f"{begin} of {files}, with -v: {Report(cells).counts}"), PLAIN),)


def _folded(page: Page, part: Section, whole: Section) -> Iterator[Line]:
    """One line in place of the rows that are not shown."""
    cells = [cell for row in whole.rows if row not in part.rows for cell in row.cells.values()]
    if cells:
        counts = Report(cells).counts
        if part.rows:
            text = f"  and {plural(len(whole.rows) - len(part.rows), 'row')} more: {counts}"
        else:
            text = ": ".join(filter(None, [page.line(whole.title), plural(len(whole.rows), "row"), counts]))
        yield ((page.clip(text), PLAIN),)


def _layout(page: Page, parts: Sequence[Section]) -> tuple[int, bool] | None:
    """Return the width of the names, and whether the headings are ``EC2 01 02`` in place of ``EC201 EC202``."""
    if not parts:
        return None
    names = 2 + max(columns(page.line(row.name)) for part in parts for row in part.rows)
    for short in (False, True):
        headings = [_headings(page, part, short) for part in parts]
        room = page.width - max(sum(columns(code) + 1 for code in codes) for _, codes in headings)
        least = min(names, _MIN_NAME) if short else names
        if room >= max([least, *(columns(prefix) for prefix, _ in headings)]):
            titles = [_title_width(page, part, prefix) for part, (prefix, _) in zip(parts, headings, strict=True)]
            return min(max([names, *(title for title in titles if title <= room)]), room), short
    return None


def _title_width(page: Page, part: Section, prefix: str) -> int:
    """The columns that the title of a part needs on the line of its headings."""
    return columns(page.line(part.title)) + columns(prefix) + 2


def _headings(page: Page, part: Section, short: bool) -> tuple[str, list[str]]:
    """The common prefix of all headings, and the rest of each."""
    codes = [page.line(code) for code in part.codes]
    cut = 0
    if short:
        alike = [len(set(characters)) == 1 for characters in zip(*codes, strict=False)]
        cut = max(0, min([*alike, False].index(False), *(len(code) - 2 for code in codes)))
    return codes[0][:cut], [code[cut:] for code in codes]


def _table(page: Page, part: Section, width: int, short: bool) -> Iterator[Line]:
    prefix, codes = _headings(page, part, short)
    title = page.line(part.title)
    if _title_width(page, part, prefix) > width:
        yield ((page.clip(title, middle=True), BOLD),)
        title = ""
    yield (pad(title, width - columns(prefix)), BOLD), (prefix, LIGHT), ("".join(f" {code}" for code in codes), LIGHT)
    for row in part.rows:
        name = "  " + page.clip(page.line(row.name), width - 2, middle=True)
        yield (pad(name, width), PLAIN), *_symbols(page, part, row, codes)


def _symbols(page: Page, part: Section, row: Row, headings: Sequence[str]) -> Iterator[Segment]:
    for code, heading in zip(part.codes, headings, strict=True):
        cell = row.cells.get(code)
        symbol, markup = (page.symbol(cell.outcome), MARKUP[cell.outcome]) if cell else (" ", PLAIN)
        yield symbol.center(columns(heading)).rjust(columns(heading) + 1), markup


def _rows_as_list(page: Page, part: Section) -> Iterator[Line]:
    if part.title:
        yield ((page.clip(page.line(part.title), middle=True), BOLD),)
    for row in part.rows:
        items: list[Segment] = [(page.clip(page.line(row.name), page.width - 2, middle=True), PLAIN)]
        codes = {o: [code for code, cell in row.cells.items() if cell.outcome == o] for o in OUTCOMES}
        for outcome in ("failed", "incomplete") if page.brief else ("failed", "known", "incomplete", "not run"):
            entries = (page.line(f"{page.symbol(outcome)} {text}") for text in groups.ranges(codes[outcome]))
            items.extend((page.clip(entry, page.width - 4), MARKUP[outcome]) for entry in entries)
        if len(items) == 1:
            rest: Outcome = "passed" if codes["passed"] else "not applicable"
            items.append((f"{page.symbol(rest)} {len(codes[rest])} {rest}", MARKUP[rest]))
        yield from page.flow(items, indent="  ", hang=_INDENT)


# The variants of loops.


def _variants(page: Page, comparisons: Sequence[variants.Comparison]) -> Iterator[Line]:
    """A table per target of what variants cost beside the plain configuration."""
    if not comparisons:
        return
    note = page.clip("speed and memory, measured in turns in this run and not judged", page.width - 10)
    yield ("Variants: ", BOLD), (note, PLAIN)
    shown = comparisons if page.verbosity > 0 else comparisons[:_MAX_VARIANT_TARGETS]
    for comparison in shown:
        yield from _variant_table(page, comparison) if page.density.tables else _variant_line(page, comparison)
    if len(comparisons) > len(shown):
        yield ((f"  and {plural(len(comparisons) - len(shown), 'target')} more, with -v", PLAIN),)


def _variant_line(page: Page, comparison: variants.Comparison) -> Iterator[Line]:
    """The speed-ups of a target in one line."""
    speeds = ", ".join(f"{row[0]} {row[2]}" for row in comparison.rows if row[2])
    target = comparison.target.rpartition("::")[2] + ("" if comparison.device == "cpu" else f"[{comparison.device}]")
    yield ((page.clip("  " + page.line(f"{target}, {comparison.samples}: {speeds}")), PLAIN),)


def _variant_table(page: Page, comparison: variants.Comparison) -> Iterator[Line]:
    device = "" if comparison.device == "cpu" else f"[{comparison.device}]"
    yield ((page.clip(f"  {page.line(comparison.target + device)}, {comparison.samples}", middle=True), PLAIN),)
    rows = [variants.HEADINGS, *(tuple(map(page.line, row)) for row in comparison.rows)]
    markups = [LIGHT, *(_VERDICTS.get(verdict, PLAIN) for verdict in comparison.verdicts)]
    names = [page.clip(row[0], _MAX_VARIANT_NAME, middle=True) for row in rows]
    name_width = max(map(columns, names))
    room = page.width - 4 - name_width
    widths: dict[int, int] = {}
    for index in _FIGURES:
        width = 2 + max(columns(row[index]) for row in rows)
        if width <= room:
            widths[index] = width
            room -= width
    for number, (name, row, markup) in enumerate(zip(names, rows, markups, strict=True)):
        figures = "".join(" " * (width - columns(row[index])) + row[index] for index, width in sorted(widths.items()))
        change = row[-1]
        beside = columns(change) + 2 <= room
        text = f"{_INDENT}{pad(name, name_width)}{figures}  {change if beside else ''}".rstrip()
        yield ((page.clip(text), markup),)
        if number and not beside:
            yield from page.paragraph(change, indent=" " * 8, markup=markup)
