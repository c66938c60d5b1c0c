"""Parts that the views share: the matrix of targets and checks, and cells with one explanation as a group.

Cells of a distributed or shuffled run arrive in any order. All groups are sorted, so that two runs compare.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pytest_evalcheck.reports.causes import Cause, causes_of
from pytest_evalcheck.reports.results import DECLARED, UNEXPLAINED, Cell, Outcome, Report
from pytest_evalcheck.reports.severity import mark
from pytest_evalcheck.reports.text import line

Cells = tuple[Cell, ...]

_WORST_LAST: tuple[Outcome, ...] = ("not applicable", "passed", "not run", "known", "incomplete", "failed")


@dataclass(frozen=True)
class Row:
    """One target on one device: its cells by code."""

    name: str
    target: str
    device: str
    cells: Mapping[str, Cell]


@dataclass(frozen=True)
class Section:
    """The part of the matrix for one file, or for the targets of one kind in it where the file has several."""

    title: str
    file: str
    kind: str
    codes: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def executed(self) -> bool:
        """Return whether a check of one of its targets was tried."""
        return any(cell.executed for row in self.rows for cell in row.cells.values())

    def statement(self, code: str) -> str:
        """The property of a column: ``EC203 merging shards gives the value of the whole``."""
        return next(statement(row.cells[code]) for row in self.rows if code in row.cells)


def split(target: str) -> tuple[str, str]:
    """The file and the name of a target; the file is empty where the target has none."""
    file, colons, name = target.partition("::")
    return (file, name) if colons else ("", target)


def ordered(cells: Iterable[Cell]) -> Cells:
    """By file, target, device and code."""
    return tuple(sorted(cells, key=lambda cell: (split(cell.target), cell.device, cell.code)))


def grouped(cells: Iterable[Cell], key: Callable[[Cell], tuple[Any, ...]]) -> list[Cells]:
    """Sorted cells with one ``key`` as a group, the largest group first."""
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in ordered(cells):
        groups.setdefault(key(cell), []).append(cell)
    return sorted(map(tuple, groups.values()), key=len, reverse=True)


def sections(report: Report) -> tuple[Section, ...]:
    """The matrix of the report."""
    naming = Naming(report)
    # The cell of a process that died does not know the kind of its target.
    kinds = {cell.target: cell.kind for cell in sorted(report.cells, key=lambda cell: cell.kind)}
    parts: dict[tuple[str, str], list[Cell]] = {}
    for cell in report.cells:
        parts.setdefault((split(cell.target)[0], kinds[cell.target]), []).append(cell)
    files = [file for file, _ in parts]
    return tuple(
        Section(
            title=", ".join(filter(None, [file, kind if files.count(file) > 1 else ""])),
            file=file,
            kind=kind,
            codes=tuple(sorted({code(cell) for cell in parts[file, kind]})),
            rows=tuple(_rows(parts[file, kind], naming)),
        )
        for file, kind in sorted(parts)
    )


def _rows(cells: list[Cell], naming: Naming) -> Iterator[Row]:
    rows: dict[tuple[str, str], dict[str, Cell]] = {}
    for cell in sorted(cells, key=lambda cell: _WORST_LAST.index(cell.outcome)):
        rows.setdefault((cell.target, cell.device), {})[code(cell)] = cell
    for target, device in sorted(rows, key=lambda row: (split(row[0]), row[1])):
        yield Row(naming.name(target, device), target, device, rows[target, device])


@dataclass(frozen=True)
class Matrix:
    """The targets of one kind, file by file, and all the checks that one of them has."""

    kind: str
    codes: tuple[str, ...]
    sections: tuple[Section, ...]

    @property
    def cells(self) -> Cells:
        """The cells of the matrix."""
        return tuple(cell for section in self.sections for row in section.rows for cell in row.cells.values())

    def statement(self, code: str) -> str:
        """The property of a column."""
        return next(section.statement(code) for section in self.sections if code in section.codes)


def matrices(report: Report) -> tuple[Matrix, ...]:
    """The sections of the report by kind, the kind with the most targets first; what did not run is at the end."""
    kinds: dict[str, list[Section]] = {}
    for section in sorted(sections(report), key=lambda section: not section.executed):
        kinds.setdefault(section.kind, []).append(section)
    found = [
        Matrix(kind, tuple(sorted({code for part in parts for code in part.codes})), tuple(parts))
        for kind, parts in kinds.items()
    ]
    return tuple(sorted(found, key=lambda matrix: -sum(len(part.rows) for part in matrix.sections)))


def by_reason(cells: Iterable[Cell]) -> list[Cells]:
    """Cells of one reason and one upstream report together."""
    return grouped(cells, lambda cell: (cell.reason, cell.see))


def by_fault(cells: Iterable[Cell]) -> list[Cells]:
    """Known failures of one upstream fault together, others by reason and upstream report, or by cause without one."""
    accepted: list[Cell] = []
    told: list[Cell] = []
    for cell in cells:
        (accepted if cell.reason.startswith(UNEXPLAINED) and not cell.upstream else told).append(cell)
    found = grouped(told, lambda cell: (cell.upstream,) if cell.upstream else (cell.reason, cell.see))
    return sorted([*found, *(cause.cells for cause in causes_of(accepted))], key=len, reverse=True)


def unreached(report: Report) -> list[Cells]:
    """The checks that passed and whose cases missed a condition, by check and conditions.

    A failure ends the search, so what a failed or known cell did not reach says nothing.
    """

    def key(cell: Cell) -> tuple[Any, ...]:
        return cell.code, cell.check, cell.unreached

    return sorted(
        grouped((cell for cell in report.of("passed") if cell.unreached), key), key=lambda cells: key(cells[0])
    )


def lists(report: Report) -> dict[str, list[Cells]]:
    """Return groups of cells that neither failed nor fully passed, by the title of their list."""
    return {
        "Incomplete": grouped(report.of("incomplete"), lambda cell: (explanation(cell),)),
        "Known failures": by_fault(report.of("known")),
        "Not shown": unreached(report),
        "Not run": by_reason(report.of("not run")),
        DECLARED.capitalize(): by_reason([*filter(_is_decided, report.of("not applicable")), *_constant(report)]),
        "Not applicable": by_reason(cell for cell in report.of("not applicable") if not _is_decided(cell)),
    }


def _constant(report: Report) -> Iterator[Cell]:
    """Yield a cell for each target that inference found by trial and that gives one value."""
    for target, value in report.constant_by_trial.items():
        first = next(cell for cell in report.cells if cell.target == target)
        yield replace(first, outcome="not applicable", reason=f"{DECLARED}: it gave {value} in all cases")


def _is_decided(cell: Cell) -> bool:
    return cell.reason.startswith(DECLARED)


def explanation(cell: Cell) -> str:
    """Return the common explanation of the cells of one group in a list, on one line."""
    if cell.outcome == "passed":
        return f"{statement(cell)} reached {_nothing_of(cell)}"
    if cell.outcome == "incomplete" and not cell.reason:
        missed = f", reached {_nothing_of(cell)}" if cell.unreached else ""
        return f"{cell.examples} of {cell.planned} cases were tried{missed}"
    reason = line(cell.reason.removeprefix(f"{DECLARED}: "))
    return reason or (statement(cell) if cell.outcome == "known" else "no reason was given")


def _nothing_of(cell: Cell) -> str:
    return ", ".join(f'no "{name}"' for name in cell.unreached)


MORE_TIME = (
    "Give these checks more time (`timeout=` of the target, --evalcheck-timeout=), or try fewer cases "
    "(--evalcheck-effort=quick)."
)
"""Advice about incomplete cells."""


def upstream(cell: Cell) -> str:
    """The upstream report of a known failure, on one line, and the import that mends it where there is one."""
    return "; ".join(filter(None, [line(cell.see) or "no upstream report found", mended_by(cell)]))


def mended_by(cell: Cell) -> str:
    """The call that mends the upstream fault of a known failure, as a clause; empty without one."""
    if not cell.upstream:
        return ""
    from pytest_evalcheck.fixes.patches.applying import patch_of

    found = patch_of(cell.upstream)
    return f"mended by pytest_evalcheck.fixes.patched({found[0].name!r})" if found else ""


def verdict(report: Report) -> str:
    """The result of the run, for a heading."""
    if not any(cell.executed for cell in report.cells):
        return "nothing is to be tried" if report.unchanged and report.ok else "nothing was tried"
    if report.count("failed"):
        return "failures"
    return "incomplete" if report.count("incomplete") else "nothing failed"


def code(cell: Cell) -> str:
    """The code of a cell; a question mark for a check that is not known here."""
    return cell.code or "?"


def statement(cell: Cell) -> str:
    """``EC203 merging shards gives the value of the whole``."""
    return f"{code(cell)} {cell.check.replace('_', ' ')}"


def headline(cause: Cause[Cell]) -> str:
    """The cause as its cells name it, else the property of the most basic failure."""
    return line(cause.first.cause) or statement(cause.first)


def title(cause: Cause[Cell]) -> str:
    """The headline of a cause with the severity of its most basic failure: ``EC501 ... (error)``."""
    return headline(cause) + mark(cause.first.severity)


class Naming:
    """Names of the targets of one report in lists: as short as is clear."""

    def __init__(self, report: Report) -> None:
        self.several_devices = len({cell.device for cell in report.cells}) > 1
        self.codes: dict[tuple[str, str], set[str]] = {}
        self.files: dict[str, set[tuple[str, str]]] = {}
        for cell in report.cells:
            row = (cell.target, cell.device)
            self.codes.setdefault(row, set()).add(code(cell))
            self.files.setdefault(split(cell.target)[0], set()).add(row)

    def name(self, target: str, device: str) -> str:
        """The name without its file, with the device where the run had more than one."""
        return split(target)[1] + (f"[{device}]" if self.several_devices else "")

    def targets(self, cells: Iterable[Cell], *, most: int | None = None) -> str:
        """``metrics.py::accuracy, f1; text.py::* (4)``: the targets of some cells, ``*`` for all of a file.

        At most ``most`` names per file are listed, the others are counted.
        """
        files: dict[str, list[tuple[str, str]]] = {}
        for target, device in dict.fromkeys((cell.target, cell.device) for cell in ordered(cells)):
            files.setdefault(split(target)[0], []).append((target, device))
        return "; ".join(self._names(file, rows, most) for file, rows in files.items())

    def target_lines(self, cells: Iterable[Cell], *, most: int | None = None) -> list[str]:
        """``EC203 EC204: metrics.py::accuracy, f1``: the targets of some cells, one entry per set of codes.

        ``every check`` stands for all the codes that the target has.
        """
        rows: dict[tuple[str, str], list[Cell]] = {}
        for cell in ordered(cells):
            rows.setdefault((cell.target, cell.device), []).append(cell)
        entries: dict[str, list[Cell]] = {}
        for row, own in rows.items():
            codes = {code(cell) for cell in own}
            what = "every check" if len(codes) > 1 and codes == self.codes[row] else " ".join(ranges(codes))
            entries.setdefault(what, []).extend(own)
        return [f"{what}: {self.targets(own, most=most)}" for what, own in entries.items()]

    def _names(self, file: str, rows: list[tuple[str, str]], most: int | None) -> str:
        prefix = f"{file}::" if file else ""
        if len(rows) > 1 and len(rows) == len(self.files[file]):
            return f"{prefix}* ({len(rows)})"
        names = [self.name(*row) for row in rows]
        if most is not None and len(names) > most + 1:
            names = [*names[:most], f"{len(names) - most} more"]
        return prefix + ", ".join(names)


def entries(first: Cell, cells: Cells, naming: Naming) -> list[tuple[str, Cells]]:
    """The other cells of the cause of ``first``: those with one reason as a line, and the cells of each line.

    ``EC102 the same batch gives the same outputs: <reason>``; the target and the device where it is another one, and no
    reason where it is that of ``first``.
    """
    found = []
    for alike in sorted(by_reason(cells), key=lambda alike: cells.index(alike[0])):
        here = len(alike) == 1 and (alike[0].target, alike[0].device) == (first.target, first.device)
        what = statement(alike[0]) if here else "; ".join(naming.target_lines(alike, most=3))
        reason = "" if alike[0].reason == first.reason else line(alike[0].reason)
        found.append((": ".join(filter(None, [what, reason])), alike))
    return found


def ranges(codes: Iterable[str]) -> list[str]:
    """``EC201-EC205`` and ``EC207``: codes in order, three or more that follow each other as a range."""
    runs: list[list[str]] = []
    for code in sorted(codes):
        if runs and _follows(runs[-1][-1], code):
            runs[-1].append(code)
        else:
            runs.append([code])
    return [text for run in runs for text in ([f"{run[0]}-{run[-1]}"] if len(run) > 2 else run)]


def _follows(first: str, second: str) -> bool:
    one, two = (re.fullmatch(r"(\D*)([0-9]{1,9})", code) for code in (first, second))
    return one is not None and two is not None and one[1] == two[1] and int(one[2]) + 1 == int(two[2])
