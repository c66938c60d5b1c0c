"""The hooks of a run under ``--evalcheck`` that judge cells, gather them and end the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pytest

from pytest_evalcheck import reports
from pytest_evalcheck.engine.device_selection import SKIPPED, other_device, with_missing
from pytest_evalcheck.engine.runner import CellRunner
from pytest_evalcheck.integration.choosing import inferring, since
from pytest_evalcheck.integration.choosing.collection import COVERS_PROJECT, Collection
from pytest_evalcheck.integration.choosing.not_run import RunFacts
from pytest_evalcheck.integration.choosing.selection import Selection
from pytest_evalcheck.integration.item_cells import PROPERTY, attach, runner_of
from pytest_evalcheck.integration.known import accepting
from pytest_evalcheck.integration.options import Options
from pytest_evalcheck.integration.process.exit_guard import CONCLUDE, ExitGuard, about_code, looks
from pytest_evalcheck.integration.screen.folding import write_verdict
from pytest_evalcheck.integration.screen.run_summary import write_summary
from pytest_evalcheck.integration.scripts import Places
from pytest_evalcheck.kinds.registry import problems, shipped
from pytest_evalcheck.reports.causes import repeats
from pytest_evalcheck.reports.failure_text import format_failure, format_repeated
from pytest_evalcheck.reports.json import versions
from pytest_evalcheck.reports.results import Cell, Report, Verdict
from pytest_evalcheck.reports.runs import Run, Shard
from pytest_evalcheck.targets import device_spec
from pytest_evalcheck.targets.making import noting

PROBLEM = "evalcheck_problem"
"""The user property that carries what is wrong beside a cell."""

_MOST_LOST_WORKERS = 5


@dataclass(eq=False)
class EvalcheckSession:
    """One run: its options, and the cells it has seen."""

    options: Options
    config: pytest.Config
    selection: Selection
    places: Places
    cells: dict[str, Cell] = field(default_factory=dict)
    facts: RunFacts = field(default_factory=RunFacts)
    failed: dict[str, None] = field(default_factory=dict)
    """The node ids of what pytest reports as failed."""
    code: int = 0
    """The exit code of pytest."""
    reported: list[Cell] = field(default_factory=list)
    """The failed cells so far."""
    unwritten: list[str] = field(default_factory=list)
    cut: dict[str, str] = field(default_factory=dict)
    """Sentences about what a report had no room for, by format."""
    changes: list[str] = field(default_factory=list)
    """Lines about what was written into the baseline, scripts and tests."""
    meanwhile: list[Callable[[], None]] = field(default_factory=list)
    """Functions that are called again and again while a cell runs in another process."""
    _until_the_end: ExitStack = field(default_factory=ExitStack)
    _printed: str = ""
    _written: Verdict | None = None
    _lost_workers: int | None = 0
    """The number of xdist workers that ended before any had collected; None once one has."""

    @classmethod
    def of(cls, config: pytest.Config) -> EvalcheckSession:
        """Make the session of a config, and register its collection."""
        # A target that cannot be collected must not take the others with it.
        config.option.continue_on_collection_errors = True
        options, places = Options.read(config), Places.read(config)
        made = cls(options, config, Selection(config, options, since.changed_since(config)), places)
        config.stash[CONCLUDE] = made.conclude
        if not made.works:
            guard = ExitGuard(made._ended_by_exit)
            guard.install()
            made._until_the_end.callback(guard.remove)
        collection = Collection(
            config, options, made.selection, made.facts, made._until_the_end.enter_context(noting())
        )
        config.add_cleanup(made._until_the_end.close)  # also where a hook takes this plugin out
        for plugin, name in ((made, "pytest_evalcheck_session"), (collection, "pytest_evalcheck_collection")):
            if config.pluginmanager.register(plugin, name) is None:
                raise pytest.UsageError(f"-p no:{name} removes a plugin that --evalcheck needs")
        return made

    @property
    def works(self) -> bool:
        """True if this is a worker of xdist."""
        return hasattr(self.config, "workerinput")

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of xdist which targets were inferred, what changed, and whether these are all targets."""
        node.workerinput[COVERS_PROJECT] = self.selection.covers_project()
        inferring.tell_worker(node)
        since.tell_worker(node, self.selection.changed)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:  # noqa: ARG002
        """Note that workers of xdist can collect: what ends one from now on is a cell."""
        self._lost_workers = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """Take over what a worker of xdist has seen; end a run whose workers end before one of them can collect."""
        self.facts.merge(json.loads(getattr(node, "workeroutput", {}).get(PROPERTY, "{}")))
        if error is None or self._lost_workers is None:
            return
        self._lost_workers += 1
        if self._lost_workers == _MOST_LOST_WORKERS:  # any number of them is restarted, since each cell may cost one
            last = str(error).strip().splitlines()[-1:]
            why = f"no worker of xdist came to collect, {self._lost_workers} ended: {''.join(last)[:200]}"
            self.facts.problems[why] = None
            pytest.exit(why, returncode=pytest.ExitCode.INTERRUPTED)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Set the outcome of a cell that does not come to run."""
        runner = runner_of(item)
        if runner is not None:
            attach(item, runner.cell("not run", reason="its check was not called"))
            if _cannot_run(runner):  # what it lacks, its fixtures may lack
                away = other_device(runner.spec.target, runner.spec.device)
                cell = runner.cell("not run", reason=away) if away else runner.run({})
                cell = with_missing(cell, runner.spec, self.options.devices)
                attach(item, cell)
                self._conclude(cell)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        """Say why a cell was not set up, and that no mark hides a failure."""
        if call.when == "teardown" and item.get_closest_marker("evalcheck") and item.get_closest_marker("xfail"):
            target = item.nodeid.rpartition("::")[0]
            wanted = "list what fails instead: known_failures={'EC201': ec.KnownFailure('why')}"
            text = f"{target} is marked xfail, which would hide every failure; {wanted}"
            item.user_properties.append((PROBLEM, text))  # this process may be one that is supervised
        if (
            call.when == "teardown"
            and runner_of(item)
            and not item.config.getoption("--hypothesis-show-statistics", False)
        ):
            # Hypothesis writes them into the JUnit file, encoded, as a property of the whole suite for each cell.
            vars(item).pop("hypothesis_statistics", None)
        runner = runner_of(item) if call.when == "setup" and call.excinfo is not None else None
        if runner is not None and call.excinfo is not None and not _cannot_run(runner):
            error = call.excinfo.value
            if isinstance(error, pytest.skip.Exception):
                cell = runner.cell("not run", reason=f"skipped: {error.msg or 'no reason is given'}")
                attach(item, replace(cell, missing=(SKIPPED,)))
            else:
                attach(item, runner.cell("not run", reason="its fixtures could not be set up"))
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """Judge a cell instead of calling a test."""
        runner = runner_of(pyfuncitem)
        if runner is None:
            return None
        given = {**pyfuncitem.funcargs, "device": device_spec.torch_name(runner.spec.device)}
        arguments = {name: given[name] for name in runner.spec.target.arguments}
        cell = accepting.run_cell(runner, arguments, self.options)
        skipped = isinstance(runner.state.ended_by, pytest.skip.Exception)
        cell = with_missing(cell, runner.spec, self.options.devices, skipped=skipped)
        attach(pyfuncitem, cell)
        self._conclude(cell)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather the cells, here or from the workers."""
        if report.failed:
            self.failed[report.nodeid] = None
        if report.when == "setup" and not report.failed:
            return  # a worker may still die in the call
        for name, value in report.user_properties:
            if name == PROBLEM:
                self.facts.problems[str(value)] = None
            if name == PROPERTY:
                self.cells[report.nodeid] = Cell.from_json(json.loads(str(value)))
        ours = "evalcheck" in report.keywords or not report.keywords  # xdist names no keyword of what took a worker
        if report.failed and ours and report.nodeid not in self.cells and report.nodeid.endswith("]"):
            self.cells[report.nodeid] = _died(report)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """Write the reports before the screen is written, and the last line after all other plugins."""
        if self.works:
            self.config.workeroutput[PROPERTY] = json.dumps(vars(self.facts))  # type: ignore[attr-defined]
        if self.works or looks(self.config):
            return (yield)
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            if self.facts.all_unchanged:
                session.exitstatus = pytest.ExitCode.OK
            elif any(self.facts.unknown_optional(self.options.optional, whole=self._whole)):
                session.exitstatus = pytest.ExitCode.USAGE_ERROR
        self.code = int(session.exitstatus)
        self._write_baseline()
        self.changes += self.places.write(self.config, list(self.cells.values()))
        self._write()
        if session.exitstatus == pytest.ExitCode.OK and not self.report.ok:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        try:
            return (yield)
        finally:
            session.exitstatus = self.conclude(int(session.exitstatus))

    def conclude(self, code: int) -> int:
        """Return the exit code of the run for that of pytest; write the reports again where they say less."""
        ours = code == pytest.ExitCode.TESTS_FAILED and not self.report.ok
        self.code = self.code if ours else code
        self._write()
        verdict = self.report.verdict
        if verdict.line != self._printed:
            self._printed = verdict.line
            self._print(verdict)
        return code or (pytest.ExitCode.OK if verdict.ok else pytest.ExitCode.TESTS_FAILED)

    def _ended_by_exit(self, status: int) -> int:
        self.facts.problems[f"os._exit({status}) was called in the process of the run"] = None
        return self.conclude(status)

    def _print(self, verdict: Verdict) -> None:
        manager = self.config.pluginmanager
        capture, reporter = manager.getplugin("capturemanager"), manager.getplugin("terminalreporter")
        if capture is not None:
            capture.suspend_global_capture(in_=True)
        if reporter is not None:
            reporter.ensure_newline()
            if reporter._tw.width_of_current_line:  # the reporter does not know of a line without the name of a file
                reporter._tw.line()
            write_verdict(reporter, verdict)

    def _write_baseline(self) -> None:
        if not accepting.writes(self.options):
            return
        baseline, facts = self.options.baseline, self.facts
        gone = baseline.gone(facts.targets, facts.whole_files, self.config.rootpath) if self.options.prune else []
        after, lines = accepting.updated(baseline, self.cells.values(), gone, accept=self.options.accept)
        self.changes += lines
        try:
            if after != baseline or (self.options.accept and baseline.migrated):
                after.write()
                after = after.as_written()
        except OSError as error:
            self.unwritten.append(f"{baseline.path} could not be written: {error}")
            return
        self.options = replace(self.options, baseline=after)

    def _write(self) -> None:
        report = self.report
        if report.verdict == self._written:
            return
        again = self._written is not None
        for name, path in self.options.reports:
            problem = f"the {name} report could not be written to {path}"
            appended = again and reports.format_of(name).appends
            if appended or any(line.startswith(problem) for line in self.unwritten):
                continue
            try:
                self.cut[name] = reports.write(report, name, path, shipped)
            except (OSError, reports.ReportError) as error:  # the disk may have filled up meanwhile
                self.unwritten.append(f"{problem}: {error}")
        self._written = report.verdict
        if self.unwritten:  # those that could be written say it too
            self._write()

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Write the matrix, or why there is none."""
        if not (self.works or looks(self.config)):
            unstable = accepting.unstable(self.cells.values())
            changes = (*filter(None, self.cut.values()), *self.changes, *unstable)
            write_summary(terminalreporter, self.report, self.facts, self.selection, self.options, changes=changes)

    @property
    def _whole(self) -> bool:
        return self.facts.complete and self.selection.covers_project()

    @property
    def report(self) -> Report:
        """The cells so far, and what else decides whether the run is ok."""
        optional, facts, selection = self.options.optional, self.facts, self.selection
        found = [
            *problems(),
            *facts.problems_with(self.cells, self.failed, runxfail=self.config.option.runxfail),
            *facts.problems_with_optional(optional, whole=self._whole),
            *self.options.baseline.problems(facts.targets, facts.whole_files, self.config.rootpath),
            *self.unwritten,
        ]
        discovery = self.config.stash.get(inferring.DISCOVERY, None)
        changed = selection.changed
        more: dict[str, Any] = {
            "optional": optional,
            "narrowed": selection.splits_targets(facts.selected, facts.deselected)
            or not facts.unchanged.keys().isdisjoint(nodeid.rpartition("::")[0] for nodeid in facts.selected),
            "unchanged": changed.clause(facts.unchanged, whole=facts.all_unchanged) if changed else "",
            "inferred": discovery and inferring.as_json(discovery),
            "run": self._run,
        }
        made = Report(self.cells.values(), problems=found, **more)
        ended = about_code(self.code, explained=not made.ok)
        return Report(made.cells, problems=(*found, *ended), **more) if ended else made

    @property
    def _run(self) -> Run:
        shard = {name: value for name, value in self.facts.shard.items() if name != "checks"}
        return Run(
            effort=self.options.effort_name,
            devices=self.options.devices,
            versions=self._versions,
            shard=Shard(**shard) if shard else None,
            chosen=self.selection.by_command_line(self.facts.deselected),
            left_out=self.facts.left_out_by_reason,
        )

    @cached_property
    def _versions(self) -> dict[str, str | None]:
        return versions()

    def _conclude(self, cell: Cell) -> None:
        __tracebackhide__ = True
        if cell.outcome == "failed":
            repeated = repeats(cell, self.reported)
            self.reported.append(cell)
            pytest.fail(format_repeated(cell, *repeated) if repeated else format_failure(cell), pytrace=False)
        if cell.outcome == "known":
            if self.config.option.runxfail:
                pytest.fail(format_failure(cell), pytrace=False)
            # Its traceback would be of this code, and each frame is formatted with its arguments.
            raise pytest.xfail.Exception(cell.reason + (f" ({cell.see})" if cell.see else ""), pytrace=False)
        if cell.outcome == "incomplete":
            pytest.fail(f"{cell.code}: incomplete: {cell.reason}", pytrace=False)
        if cell.outcome != "passed":
            pytest.skip(f"{cell.outcome}: {cell.reason}")


def _cannot_run(runner: CellRunner) -> bool:
    target = runner.spec.target
    return bool(target.absent or other_device(target, runner.spec.device))


def _died(report: pytest.TestReport) -> Cell:
    """Return the cell of a worker that is gone: all that is known is its id."""
    target, _, rest = report.nodeid.rpartition("::")
    check, _, device = rest.rstrip("]").partition("[")
    code = next((made.code for made in shipped() if made.name == check), "")
    reason = str(report.longrepr).strip().splitlines()[-1] if report.longrepr else "its process died"
    return Cell(
        target=target,
        kind="",
        check=check,
        code=code,
        device=device,
        outcome="failed",
        reason=reason,
        cause="died",
        file=target.partition("::")[0],
    )
