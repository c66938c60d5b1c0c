"""The hooks of a run under ``--evalcheck``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_evalcheck import reports
from pytest_evalcheck.integration import collection
from pytest_evalcheck.integration.isolation import isolated_cell, should_isolate
from pytest_evalcheck.integration.options import Options
from pytest_evalcheck.kinds.registry import problems, shipped
from pytest_evalcheck.reports.failure_text import format_failure
from pytest_evalcheck.reports.results import Cell, Report
from pytest_evalcheck.targets.target import Target

PROPERTY = "evalcheck"
"""The user property that carries a cell: it reaches the controller of xdist, and JUnit."""

_OPT_IN = ("distributed", "sweep")
"""Markers whose cells run only when ``-m`` names them."""


@dataclass(eq=False)
class EvalcheckSession:
    """One run: what it was asked for, and the cells it has seen."""

    options: Options
    config: pytest.Config
    cells: dict[str, Cell] = field(default_factory=dict)
    narrowed: bool = False
    reported: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """The first check that reported a cause which its target shares with others."""
    failed_to_collect: int = 0
    unwritten: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, config: pytest.Config) -> EvalcheckSession:
        """The session of a config, with its markers registered."""
        for line in (
            "evalcheck(target, check, code): a cell of pytest-evalcheck",
            "distributed: starts real processes; runs when -m names it",
            "sweep: checks a whole library; runs when -m names it",
        ):
            config.addinivalue_line("markers", line)
        # A target that cannot be collected must not take the others with it.
        config.option.continue_on_collection_errors = True
        return cls(Options.read(config), config)

    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        """Leave ordinary tests out."""
        if self.options.with_tests or collection_path.is_dir() or self._is_target_file(collection_path):
            return None
        named = {_resolved(argument, config) for argument in config.args}
        return None if collection_path.resolve() in named else True

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Module | None:
        """Files of targets, unless pytest takes them anyway."""
        patterns = parent.config.getini("python_files")
        by_pytest = parent.session.isinitpath(file_path) or any(file_path.match(p) for p in patterns)
        if file_path.suffix != ".py" or by_pytest or not self._is_target_file(file_path):
            return None
        module: pytest.Module = pytest.Module.from_parent(parent, path=file_path)
        return module

    def pytest_pycollect_makeitem(self, collector: Any, name: str, obj: object) -> Any:
        """Targets become classes of checks."""
        return collection.collected(collector, name, obj, self.options) if isinstance(obj, Target) else None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Take out ordinary tests, and the cells that must be asked for by marker."""
        expression = str(config.option.markexpr)
        kept: list[pytest.Item] = []
        out: list[pytest.Item] = []
        for item in items:
            ours = item.get_closest_marker("evalcheck") is not None
            unasked = [mark for mark in _OPT_IN if item.get_closest_marker(mark) and mark not in expression]
            (out if unasked or not (ours or self.options.with_tests) else kept).append(item)
        if out:
            items[:] = kept
            narrowed = self.narrowed  # what was taken out here was never asked for
            config.hook.pytest_deselected(items=out)
            self.narrowed = narrowed

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Note that cells were taken out by the user, so that what is left need not be complete."""
        self.narrowed |= any(item.get_closest_marker("evalcheck") for item in items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count what could not be collected."""
        self.failed_to_collect += report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Until the cell has run, its outcome is that it did not."""
        runner = _runner(item)
        if runner is not None:
            _attach(item, runner.cell("not run", reason="its fixtures could not be set up"))

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """Judge a cell instead of calling a test."""
        runner = _runner(pyfuncitem)
        if runner is None:
            return None
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        if should_isolate(runner.spec, self.options):
            cell = isolated_cell(runner, pyfuncitem, self.options)
        else:
            cell = runner.run(lambda: pyfuncitem.obj(**arguments))
        # Hypothesis would offer a patch that adds the example to our own file.
        pyfuncitem.__dict__.pop("_hypothesis_failing_examples", None)
        _attach(pyfuncitem, cell)
        self._conclude(cell)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather the cells, here or from the workers."""
        if report.when == "setup" and not report.failed:
            return  # a worker may still die in the call
        for name, value in report.user_properties:
            if name == PROPERTY:
                self.cells[report.nodeid] = Cell.from_json(json.loads(str(value)))
        if report.failed and report.nodeid not in self.cells and report.nodeid.endswith("]"):
            self.cells[report.nodeid] = _died(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the reports; a run that tried nothing is not green."""
        if hasattr(self.config, "workerinput") or self.config.option.collectonly:
            return
        for name, path in self.options.reports:
            try:
                reports.write(self.report, name, path)
            except (OSError, reports.ReportError) as error:  # the disk may have filled up meanwhile
                self.unwritten.append(f"the {name} report could not be written to {path}: {error}")
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if (self._untried or problems()) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The matrix, or why there is none."""
        if hasattr(self.config, "workerinput") or self.config.option.collectonly:
            return
        from pytest_evalcheck.reports.terminal import emit, render

        terminalreporter.section("evalcheck")
        if not self.report.cells:
            if not self.failed_to_collect:
                patterns = ", ".join(self.options.files)
                terminalreporter.write_line(
                    f"no target was run: no cell of a file named {patterns} was collected and selected", red=True
                )
            return
        writer = terminalreporter._tw
        encoding = (getattr(writer._file, "encoding", None) or "ascii").lower()
        lines = render(
            self.report,
            width=writer.fullwidth,
            color=writer.hasmarkup,
            verbosity=self.config.option.verbose,
            unicode="utf" in encoding,
            untried=self._untried,
        )
        emit(lines, writer.write)
        for line in (*problems(), *self.unwritten):
            terminalreporter.write_line(f"ERROR: {line}", red=True)

    @property
    def report(self) -> Report:
        """The cells so far."""
        return Report(self.cells.values())

    @property
    def _untried(self) -> tuple[str, ...]:
        option = self.config.option  # the controller of xdist does not get what was deselected
        by_pytest = self.narrowed or option.keyword or option.markexpr or getattr(option, "lf", False)
        asked_for_less = by_pytest or self.options.take or self.options.leave or self.options.replay
        chosen = any("::" in argument for argument in self.config.args)
        return () if asked_for_less or chosen else self.report.untried

    def _is_target_file(self, path: Path) -> bool:
        return any(path.match(pattern) for pattern in self.options.files)

    def _conclude(self, cell: Cell) -> None:
        __tracebackhide__ = True
        if cell.outcome == "broken":
            first = (
                self.reported.setdefault((cell.target, cell.device, cell.cause), cell.check)
                if cell.cause
                else cell.check
            )
            if first != cell.check:
                pytest.fail(
                    f"{cell.code}: the same as in {first}: {cell.reason}\nreproduce    {cell.reproduce}", pytrace=False
                )
            pytest.fail(format_failure(cell), pytrace=False)
        if cell.outcome == "known":
            if self.config.option.runxfail:
                pytest.fail(format_failure(cell), pytrace=False)
            pytest.xfail(cell.reason + (f" ({cell.see})" if cell.see else ""))
        if cell.outcome != "kept":
            pytest.skip(f"{cell.outcome}: {cell.reason}")


def _runner(item: pytest.Item) -> Any:
    runners = getattr(getattr(item, "function", None), collection.RUNNERS, None)
    return runners[item.callspec.params["device"]] if runners else None  # type: ignore[attr-defined]


def _attach(item: pytest.Item, cell: Cell) -> None:
    item.user_properties[:] = [p for p in item.user_properties if p[0] != PROPERTY]
    item.user_properties.append((PROPERTY, json.dumps(cell.as_json())))


def _died(report: pytest.TestReport) -> Cell:
    """The cell of a worker that is gone: all that is known is its id."""
    target, _, rest = report.nodeid.rpartition("::")
    check, _, device = rest.rstrip("]").partition("[")
    code = next((made.code for made in shipped() if made.name == check), "")
    reason = str(report.longrepr).strip().splitlines()[-1] if report.longrepr else "its process died"
    return Cell(
        target=target, kind="", check=check, code=code, device=device, outcome="broken", reason=reason, cause="died"
    )


def _resolved(argument: str, config: pytest.Config) -> Path:
    return (Path(config.invocation_params.dir) / argument.partition("::")[0]).resolve()
