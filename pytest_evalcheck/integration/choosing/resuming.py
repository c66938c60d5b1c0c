"""Writing cells as they end, and going on from the file of a run that was ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pytest_evalcheck.engine.cell_spec import CellSpec
from pytest_evalcheck.integration.item_cells import attach, runner_of
from pytest_evalcheck.integration.screen.folding import write_note
from pytest_evalcheck.reports import ReportError, jsonl
from pytest_evalcheck.reports.results import Cell

_SIZE = "evalcheck_resume_size"
_FINAL = ("passed", "failed", "known", "not applicable")
"""Other outcomes are tried again: something was missing, or there was too little time."""


class Streaming:
    """Writes each cell to the files of ``--evalcheck-report=jsonl=PATH`` when it has ended."""

    def __init__(self, session: Any, resumed: Resuming | None) -> None:
        self.session = session
        self.paths = [path for name, path in session.options.reports if name == "jsonl"]
        self._written: dict[str, Mapping[str, Any]] = {}
        """The cells as JSON by id: a NaN of a case differs from itself, and its tag does not."""
        self._resumed = resumed
        head = jsonl.header(session.options.effort_name, session.options.devices)
        for path in self.paths:
            if resumed is None or path.resolve() != resumed.path.resolve():
                jsonl.begin(path, head)
        if resumed is not None and all(path.resolve() != resumed.path.resolve() for path in self.paths):
            self.paths.append(resumed.path)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the cell of a report, where it is new."""
        cell = self.session.cells.get(report.nodeid)
        if cell is None or self._written.get(report.nodeid) == (as_json := cell.as_json()):
            return
        self._written[report.nodeid] = as_json
        for path in list(self.paths):
            known = self._resumed is not None and path == self._resumed.path and self._resumed.has(report.nodeid, cell)
            try:
                None if known else jsonl.append(path, report.nodeid, cell)
            except OSError as error:  # the disk may have filled up meanwhile
                self.paths.remove(path)
                self.session.unwritten.append(f"the jsonl report could not be written to {path}: {error}")


class Resuming:
    """Takes cells from a file instead of running them."""

    def __init__(self, session: Any, path: Path) -> None:
        self.session, self.path = session, path
        self.cells: Mapping[str, jsonl.Line] = {}
        self.again: Counter[str] = Counter()
        """Numbers of cells of the file that are run again, by reason."""

    @classmethod
    def of(cls, config: pytest.Config, session: Any, given: str) -> Resuming:
        """Read the cells of the file that the command line names.

        Raises:
            pytest.UsageError: when the file cannot be read, or is of another run.
        """
        path = Path(config.invocation_params.dir, given).expanduser()
        made = cls(session, path)
        try:
            size = getattr(config, "workerinput", {}).get(_SIZE)
            head, made.cells, whole = jsonl.load(path, size)
            made._require_the_same_run(head)
        except OSError as error:
            raise pytest.UsageError(f"--evalcheck-resume {given!r}: {error.strerror or error}") from error
        except ReportError as error:
            raise pytest.UsageError(f"--evalcheck-resume: {error}") from error
        made.size = whole
        if size is None and whole < path.stat().st_size:  # a torn line
            with path.open("rb+") as file:
                file.truncate(whole)
        return made

    size = 0

    def has(self, nodeid: str, cell: Cell) -> bool:
        """Return whether the file has this cell."""
        return nodeid in self.cells and self.cells[nodeid].cell.as_json() == cell.as_json()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Let a worker that starts later read what the others have read, and not what was added since."""
        node.workerinput[_SIZE] = self.size

    def has_result(self, item: pytest.Item) -> bool:
        """Return whether the cell of an item is taken from the file."""
        line, runner = self.cells.get(item.nodeid), runner_of(item)
        return line is not None and runner is not None and not self._why_again(line, runner.spec)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Report the cell of the file."""
        if not self.has_result(item):
            if item.nodeid in self.cells and (runner := runner_of(item)) is not None:
                self.again[self._why_again(self.cells[item.nodeid], runner.spec)] += 1
            return None
        line = self.cells[item.nodeid]
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        attach(item, line.cell)
        for when in ("setup", "call", "teardown"):
            item.ihook.pytest_runtest_logreport(report=report_of_cell(self.session, item, line.cell, when))
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        # The item before this one left set up what this one would have needed.
        item.session._setupstate.teardown_exact(nextitem)
        return True

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what was run again."""
        for why, count in self.again.items():
            cells = "1 check was" if count == 1 else f"{count} checks were"
            write_note(terminalreporter, f"resumed: {cells} run again, because {why}")

    def _why_again(self, line: jsonl.Line, spec: CellSpec) -> str:
        cell = line.cell
        if cell.outcome not in _FINAL:
            return f"they were {cell.outcome}"
        # The file does not hold the baseline of its run: entries may have come, or gone.
        entry_was = cell.stale or (cell.outcome == "known" and not cell.upstream)
        if spec.listed or (entry_was and not spec.known):
            return "the baseline may have changed"
        if self.session.options.accept and cell.outcome == "failed":
            return "--evalcheck-known=accept needs what fails"
        return (
            "" if line.source and line.source == _digest(cell.file) else f"{cell.target.partition('::')[0]} has changed"
        )

    def _require_the_same_run(self, head: Mapping[str, Any]) -> None:
        now = jsonl.header(self.session.options.effort_name, self.session.options.devices)
        for name in ("effort", "devices"):
            if head.get(name) != now[name]:
                raise ReportError(
                    f"the {name} of {str(self.path)!r} is {head.get(name)!r}, but this run has {now[name]!r}"
                )
        before = head.get("versions") or {}
        for name, version in now["versions"].items():
            if before.get(name) != version:
                raise ReportError(
                    f"{str(self.path)!r} was written with {name} {before.get(name)}, but this run has {version}; "
                    "start a new file"
                )


def report_of_cell(session: Any, item: pytest.Item, cell: Cell, when: Any) -> pytest.TestReport:
    """Return the report of a phase of an item that was not run here; ``session`` is the `EvalcheckSession`."""
    call = pytest.CallInfo.from_call(lambda: session._conclude(cell) if when == "call" else None, when)
    report = pytest.TestReport.from_item_and_call(item, call)
    if call.excinfo is not None and isinstance(call.excinfo.value, pytest.xfail.Exception):
        report.outcome, report.wasxfail = "skipped", str(call.excinfo.value.msg)
    report.duration = cell.seconds if when == "call" else 0.0
    return report


_digest = cache(jsonl.digest)


def plugins(config: pytest.Config, session: Any) -> list[Any]:
    """Return the plugins that a run registers for ``--evalcheck-report=jsonl=PATH`` and ``--evalcheck-resume PATH``."""
    given = config.getoption("evalcheck_resume")
    if given and config.getoption("evalcheck_replay"):
        raise pytest.UsageError("--evalcheck-resume cannot be combined with --evalcheck-replay, which runs one case")
    resumed = Resuming.of(config, session, given) if given else None
    worker = hasattr(config, "workerinput")
    try:
        streaming = None if worker or config.option.collectonly else Streaming(session, resumed)
    except OSError as error:
        raise pytest.UsageError(f"--evalcheck-report=jsonl: {error}") from error
    return [plugin for plugin in (streaming, resumed) if plugin is not None]
