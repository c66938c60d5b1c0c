"""Pytest's short test summary of cells: it points at targets, names checks, and has one line for each reason."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any

import pytest

from pytest_evalcheck.integration.item_cells import runner_of
from pytest_evalcheck.integration.screen.folding import write_note
from pytest_evalcheck.reports.groups import code, ranges, split
from pytest_evalcheck.reports.results import Cell, Report, plural
from pytest_evalcheck.reports.text import line

_BY_DEFAULT = "fE"
"""Outcomes that pytest lists without -r."""
_MOST_LISTED = 10
"""The most failed cells that are all listed by default; of more the first one of each cause is."""
_MOST_CAUSES = 20
_MOST_NAMES = 3
_MOST_CODES = 6


class ShortSummary:
    """The hooks; ``cells`` is filled by node id while the run goes on."""

    def __init__(self, config: pytest.Config, cells: Mapping[str, Cell]) -> None:
        self.config = config
        self.cells = cells
        self._left = 0
        """The number of failed cells that are not listed."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Let a cell be skipped at its target, and not in a line of this package."""
        report = yield
        runner = runner_of(item)
        if runner is not None and report.skipped and isinstance(report.longrepr, tuple) and report.when == "call":
            target = runner.spec.target
            report.longrepr = (*(runner.state.place or (target.file, target.line)), report.longrepr[2])
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None, Any, Any]:
        """Restore the counts for the last line of pytest, and say how many are not listed."""
        before = dict(terminalreporter.stats)
        try:
            return (yield)
        finally:
            terminalreporter.stats.update(before)
            if self._left:
                write_note(terminalreporter, f"and {plural(self._left, 'failed check')} more of these causes, with -v")

    @pytest.hookimpl(trylast=True, specname="pytest_terminal_summary")
    def pytest_before_short_summary(self, terminalreporter: Any) -> None:
        """Shorten the lists that pytest prints after this hook."""
        stats = terminalreporter.stats
        for report in (*stats.get("failed", ()), *stats.get("error", ())):
            cell = self.cells.get(report.nodeid)
            if cell is not None and cell.outcome in ("failed", "incomplete"):
                with contextlib.suppress(AttributeError):  # a text has no place of a crash
                    report.longrepr.reprcrash.message = _message(cell)
        if "failed" in stats and self._shortens:
            listed = [*self._first_of_each_cause(stats["failed"])]
            self._left = len(stats["failed"]) - len(listed)
            stats["failed"] = listed
        if "skipped" in stats and getattr(terminalreporter, "foldskipped", True):
            stats["skipped"] = [*self._by_reason(stats["skipped"])]

    @property
    def _shortens(self) -> bool:
        option = self.config.option
        return option.verbose < 1 and option.reportchars == _BY_DEFAULT and not option.no_summary

    def _first_of_each_cause(self, reports: list[Any]) -> Iterator[Any]:
        if len(reports) <= _MOST_LISTED:
            yield from reports
            return
        firsts = {_key(cause.first) for cause in Report(self.cells.values()).causes[:_MOST_CAUSES]}
        for report in reports:
            cell = self.cells.get(report.nodeid)
            if cell is None or cell.outcome != "failed" or _key(cell) in firsts:
                yield report

    def _by_reason(self, reports: Iterable[Any]) -> Iterator[Any]:
        """Copies that pytest folds: all cells with one reason at the first of their targets."""
        groups: dict[str, list[Any]] = {}
        for report in reports:
            if report.nodeid in self.cells and isinstance(report.longrepr, tuple):
                groups.setdefault(report.longrepr[2], []).append(report)
            else:
                yield report
        for reason, alike in groups.items():
            file, number, _ = alike[0].longrepr
            cells = [self.cells[report.nodeid] for report in alike]
            text = f"{reason} ({_first_few(ranges({code(cell) for cell in cells}))}: {_targets(cells)})"
            for report in alike:
                folded = copy.copy(report)
                folded.longrepr = (file, number, text)
                yield folded


def _key(cell: Cell) -> tuple[str, str, str]:
    return cell.target, cell.code, cell.device


def _message(cell: Cell) -> str:
    statement = line(cell.failure.statement) if cell.failure else ""
    return f"{code(cell)}: {' '.join(filter(None, [statement, line(cell.reason)]))}"


def _targets(cells: Iterable[Cell]) -> str:
    names = list(dict.fromkeys(split(cell.target)[1] for cell in cells))
    more = f" and {len(names) - _MOST_NAMES} more" if names[_MOST_NAMES:] else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _first_few(codes: list[str]) -> str:
    return " ".join(codes[:_MOST_CODES]) + (" ..." if codes[_MOST_CODES:] else "")
