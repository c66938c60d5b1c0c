"""The hooks of a run under ``--evalcheck``."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from pytest_evalcheck import reports
from pytest_evalcheck.engine.placing import SKIPPED, elsewhere, explained
from pytest_evalcheck.engine.runner import choose_reporters
from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.integration.choosing import (
    changes,
    collection,
    inferring,
    selection_scope,
    sharding,
    suggestions,
)
from pytest_evalcheck.integration.choosing.inferring import DISCOVERY
from pytest_evalcheck.integration.choosing.marker_selection import MARKERS, Asked
from pytest_evalcheck.integration.choosing.run_facts import Facts
from pytest_evalcheck.integration.choosing.uncollected_targets import defines_targets, lost, of_conftests
from pytest_evalcheck.integration.item_cells import PROPERTY, attach, runner_of
from pytest_evalcheck.integration.known import accepting
from pytest_evalcheck.integration.known.baseline import summary
from pytest_evalcheck.integration.options import Options
from pytest_evalcheck.integration.process.exit_guard import CONCLUDE, ExitGuard, about_code, looks
from pytest_evalcheck.integration.screen.folding import folds, write_note, write_verdict
from pytest_evalcheck.integration.scripts import Places
from pytest_evalcheck.kinds.common.calling import relative
from pytest_evalcheck.kinds.registry import problems, shipped
from pytest_evalcheck.live_objects import made_to_stay
from pytest_evalcheck.reports.causes import repeats
from pytest_evalcheck.reports.failure_text import format_failure, format_repeated
from pytest_evalcheck.reports.json import versions
from pytest_evalcheck.reports.results import Cell, Report, Verdict
from pytest_evalcheck.reports.runs import Run, Shard
from pytest_evalcheck.targets import device_spec
from pytest_evalcheck.targets.making import noting
from pytest_evalcheck.targets.target import Target

PROBLEM = "evalcheck_problem"
"""The user property that carries what is wrong beside a cell."""

_MOST_LOST_WORKERS = 5


@dataclass(eq=False)
class EvalcheckSession:
    """One run: what it was asked for, and the cells it has seen."""

    options: Options
    config: pytest.Config
    cells: dict[str, Cell] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)
    failed: dict[str, None] = field(default_factory=dict)
    """The node ids of what pytest reports as failed."""
    code: int = 0
    """The exit code of pytest."""
    reported: list[Cell] = field(default_factory=list)
    """The broken cells so far."""
    unwritten: list[str] = field(default_factory=list)
    cut: dict[str, str] = field(default_factory=dict)
    """By format, a sentence about what the report had no room for."""
    accepted: list[str] = field(default_factory=list)
    """What ``--evalcheck-accept`` and ``--evalcheck-prune`` have changed, a line each."""
    places: Places = field(default_factory=Places)
    scripts: list[str] = field(default_factory=list)
    """What ``--evalcheck-scripts`` and ``--evalcheck-write-tests`` have written, a line each."""
    meanwhile: list[Callable[[], None]] = field(default_factory=list)
    """What is called again and again while a cell runs in another process."""
    changed: changes.ChangedSince | None = None
    """What ``--evalcheck-since`` asks for."""
    _seen: set[int] = field(default_factory=set)
    _with_targets: set[str] = field(default_factory=set)
    _files: dict[str, Path] = field(default_factory=dict)
    """The file of each node id: pytest gives files outside of the root directory ids that need not differ."""
    _made: list[tuple[str, Target]] = field(default_factory=list)
    _until_the_end: ExitStack = field(default_factory=ExitStack)
    _reported_out: set[str] = field(default_factory=set)
    _printed: str = ""
    _written: Verdict | None = None
    _lost_workers: int | None = 0
    """How many workers of xdist ended before any had collected; None once one has."""

    @classmethod
    def of(cls, config: pytest.Config) -> EvalcheckSession:
        """The session of a config, with its markers registered."""
        config.addinivalue_line("markers", "evalcheck(target, check, code): a check of pytest-evalcheck")
        for name, text in MARKERS.items():
            config.addinivalue_line("markers", f"{name}: {text}")
        # A target that cannot be collected must not take the others with it.
        config.option.continue_on_collection_errors = True
        options, places = Options.read(config), Places.read(config)
        made = cls(options, config, changed=changes.changed_since(config), places=places)
        config.stash[CONCLUDE] = made.conclude
        config.stash[selection_scope.WRITTEN] = suggestions.by_names(config)
        if not made.works:
            guard = ExitGuard(made._ended_by_exit)
            guard.install()
            made._until_the_end.callback(guard.remove)
        made._made = made._until_the_end.enter_context(noting())
        config.add_cleanup(made._until_the_end.close)  # also where a hook takes this plugin out
        return made

    @property
    def works(self) -> bool:
        """Whether this is a worker of xdist."""
        return hasattr(self.config, "workerinput")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> Generator[None, Any, bool | None]:
        """Leave ordinary tests out, and note the files of targets that others leave out."""
        ignored: bool | None = yield
        if collection_path.is_dir() or self._is_target_file(collection_path):
            if ignored and self._holds_targets(collection_path):
                self.facts.ignored[relative(str(collection_path))] = None
            return ignored
        named = {_resolved(argument, config) for argument in config.args}
        if ignored or self.options.with_tests or collection_path.resolve() in named:
            return ignored
        source = collection_path.suffix == ".py" and collection_path.name != "conftest.py"
        if source and defines_targets(collection_path):
            self.facts.unmatched[relative(str(collection_path))] = None
        elif source and any(collection_path.match(pattern) for pattern in config.getini("python_files")):
            self.facts.tests[relative(str(collection_path))] = None
        return True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        """Keep the garbage collector from going through the items again and again."""
        with made_to_stay():
            return (yield)

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
        if isinstance(collector, pytest.Module):
            self.facts.files[collector.nodeid] = None
        if not isinstance(obj, Target):
            return None
        if not isinstance(collector, pytest.Module):
            return []  # its file reports it
        self._seen.add(id(obj))
        self._with_targets.add(collector.nodeid)
        if (first := self._files.setdefault(collector.nodeid, collector.path)) != collector.path:
            problem = (
                f"{collector.path} and {first} have one id, since the root directory is {self.config.rootpath}: the "
                "results of one would replace those of the other; name a folder that holds both, such as --rootdir=."
            )
            return collection.bad_target(collector, name, problem)
        self.facts.found[f"{collector.nodeid}::{name}"] = obj.kind
        self.facts.own_checks.update({check.code: check.name for check in obj.extra_checks})
        if self.options.baseline.entries or accepting.writes(self.options):
            self.facts.targets[f"{collector.nodeid}::{name}"] = [check.code for check in obj.checks]
        self.facts.requires.update(dict.fromkeys(canonicalize_name(name) for name in obj.required))
        node, left_out = collection.collected(collector, name, obj, self.options, self.asked, self.changed)
        self.facts.changed.update(self.changed.run if self.changed else {})
        for marker, count in left_out.items():
            self.facts.left_out[f"{marker} {collector.nodeid}::{name}"] = count
        return [] if node is None else node

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        """A file that ends the process, a target that has no name, a file without a target: errors of that file."""
        if not (isinstance(collector, pytest.Module) and self._is_target_file(collector.path)):
            return (yield)
        try:
            report = yield
        except (SystemExit, pytest.exit.Exception) as error:
            text = f"{relative(str(collector.path))}: importing this file tried to end the process: {error!r}"
            return pytest.CollectReport(collector.nodeid, "failed", longrepr=text, result=[])
        if report.passed:
            report.result.extend(self._bad_targets(collector, report.result))
        return report

    def _bad_targets(self, collector: pytest.Module, nodes: list[Any]) -> Iterator[collection.BadTarget]:
        twice = {node.name for node in nodes if isinstance(node, collection.BadTarget)}
        found = [*lost(self._made, collector.path.resolve(), self._seen, collector.obj)]
        for name, problem in found:
            if name.partition(":")[0] not in twice:
                yield collection.bad_target(collector, name, problem)
        if not (found or collector.nodeid in self._with_targets or (self.options.with_tests and nodes)):
            problem = (
                f"{relative(str(collector.path))} holds no target: decorate a function of it, with @ec.metric(...)"
            )
            yield collection.bad_target(collector, "no target", problem)

    @pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_collection_modifyitems")
    def pytest_all_modifyitems(self, items: list[pytest.Item]) -> Generator[None, Any, Any]:
        """Note the cells that another hook took out without a report."""
        ours = [item for item in items if item.get_closest_marker("evalcheck")]
        result = yield
        left = {id(item) for item in items}
        gone = [item.nodeid for item in ours if id(item) not in left]
        self.facts.dropped.update(dict.fromkeys(n for n in gone if n not in self._reported_out))
        return result

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Take out ordinary tests, and the cells that must be asked for by marker."""
        kept: list[pytest.Item] = []
        out: list[pytest.Item] = []
        for item in items:
            ours = item.get_closest_marker("evalcheck") is not None
            (out if self._left_out(item) or not (ours or self.options.with_tests) else kept).append(item)
        choose_reporters(filter(None, map(runner_of, kept)))
        if out:
            items[:] = kept
            deselected = dict(self.facts.deselected)  # what was taken out here was never asked for
            config.hook.pytest_deselected(items=out)
            self.facts.deselected = deselected
        if self.options.shard:
            self._take_shard(items, *self.options.shard)

    def _take_shard(self, items: list[pytest.Item], number: int, of: int) -> None:
        ours = [item.nodeid for item in items if item.get_closest_marker("evalcheck")]
        self._reported_out.update(ours)
        try:
            shard, items[:] = sharding.shard_of(items, number, of, self.options.durations)
            self.facts.shard = {**vars(shard), "checks": len(ours)}
        except UsageError as error:  # not raised: xdist would say that its worker broke
            self.facts.problems[f"--evalcheck-shard={number}/{of}: {error}"] = None
            items.clear()

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Note which cells were taken out."""
        ours = [item.nodeid for item in items if item.get_closest_marker("evalcheck")]
        self.facts.deselected.update(dict.fromkeys(ours))
        self._reported_out.update(ours)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note what could not be collected, and the files that were skipped as a whole."""
        if report.failed:
            self.facts.errors[report.nodeid] = None
        elif report.skipped:
            self.facts.skipped[report.nodeid] = _reason(report.longrepr)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note the cells that are to run."""
        ours = (item.nodeid for item in session.items if item.get_closest_marker("evalcheck"))
        self.facts.selected.update(dict.fromkeys(ours))
        pattern = f"a file named {self.options.files[0]}"
        self.facts.problems.update(dict.fromkeys(of_conftests(self.config.pluginmanager.get_plugins(), pattern)))
        self._made.clear()
        self._seen.clear()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of xdist which targets were inferred, and what changed."""
        inferring.tell_worker(node)
        changes.tell_worker(node, self.changed)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:  # noqa: ARG002
        """A worker of xdist can collect: what ends one from now on is a cell."""
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
            why = f"no worker of xdist came to collect, {self._lost_workers} ended: {_reason(''.join(last))}"
            self.facts.problems[why] = None
            pytest.exit(why, returncode=pytest.ExitCode.INTERRUPTED)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Until the cell has run, its outcome is that it did not."""
        runner = runner_of(item)
        if runner is not None:
            attach(item, runner.cell("not run", reason="its check was not called"))

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
        if runner is not None and call.excinfo is not None:
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
        away = elsewhere(runner.spec.target, runner.spec.device)
        if away:
            cell = runner.cell("not run", reason=away)
        else:
            given = {**pyfuncitem.funcargs, "device": device_spec.torch_name(runner.spec.device)}
            arguments = {name: given[name] for name in runner.spec.target.arguments}
            cell = accepting.run_cell(runner, arguments, self.options)
        skipped = isinstance(runner.state.ended_by, pytest.skip.Exception)
        cell = explained(cell, runner.spec, self.options.devices, skipped=skipped)
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
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._all_unchanged:
            session.exitstatus = pytest.ExitCode.OK
        self.code = int(session.exitstatus)
        self._write_baseline()
        self.scripts = self.places.write(self.config, list(self.cells.values()))
        self._write()
        if session.exitstatus == pytest.ExitCode.OK and not self.report.ok:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        try:
            return (yield)
        finally:
            session.exitstatus = self.conclude(int(session.exitstatus))

    def conclude(self, code: int) -> int:
        """The exit code of the run, from that of pytest; write the reports where they say less, print the last line."""
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
        after, self.accepted = accepting.updated(baseline, self.cells.values(), gone, accept=self.options.accept)
        try:
            if after != baseline:
                after.write()
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
        """The matrix, or why there is none."""
        if self.works or looks(self.config):
            return
        from pytest_evalcheck.reports.terminal import emit, render

        terminalreporter.section("evalcheck")
        report = self.report
        if not report.cells and not self.facts.errors and not self._all_unchanged:
            patterns = ", ".join(self.options.files)
            write_note(
                terminalreporter,
                f"no target was run: no check of a file named {patterns} was collected and selected",
                red=True,
            )
            for line in suggestions.lines(self.config, self.options, self.facts):
                write_note(terminalreporter, line, red=True)
        elif report.cells:
            writer = terminalreporter._tw
            encoding = (getattr(writer._file, "encoding", None) or "ascii").lower()
            lines = render(
                report,
                width=writer.fullwidth,
                color=writer.hasmarkup,
                verbosity=self.config.option.verbose,
                unicode="utf" in encoding,
                untried=report.untried,
                folds=folds(writer),
            )
            emit(lines, writer.write)
        discovery = self.config.stash.get(DISCOVERY, None)
        for line in inferring.lines(discovery) if discovery else ():
            write_note(terminalreporter, line)
        by_configuration = selection_scope.by_configuration(self.config, self.options)
        verbose = self.config.option.verbose > 0
        since = self.changed.changes.since if self.changed else ""
        for line in self.facts.notes(by_configuration, self.options.optional, since=since, verbose=verbose):
            write_note(terminalreporter, line)
        for line in suggestions.elsewhere(self.config, self.options.files, found=bool(self.facts.found)):
            write_note(terminalreporter, line)
        for line in filter(None, self.cut.values()):
            write_note(terminalreporter, line)
        for line in (*self.accepted, *self.scripts):
            write_note(terminalreporter, line)
        if self.options.baseline.entries:
            write_note(terminalreporter, summary(self.options.baseline))
        for line in report.problems:
            write_note(terminalreporter, f"ERROR: {line}", red=True)

    @property
    def report(self) -> Report:
        """The cells so far, and what else decides whether the run is ok."""
        optional = self.options.optional
        found = [
            *problems(),
            *self.facts.against(self.cells, self.failed, runxfail=self.config.option.runxfail),
            *self.facts.skipped_files(optional),
            *self.facts.unknown(optional, whole=self.facts.complete and selection_scope.whole(self.config)),
            *self._of_baseline(),
            *self.unwritten,
        ]
        discovery = self.config.stash.get(DISCOVERY, None)
        more: dict[str, Any] = {
            "optional": optional,
            "narrowed": selection_scope.splits_targets(self.config, self.facts.selected, self.facts.deselected)
            or not self.facts.unchanged.keys().isdisjoint(nodeid.rpartition("::")[0] for nodeid in self.facts.selected),
            "unchanged": self.changed.clause(self.facts.unchanged, whole=self._all_unchanged) if self.changed else "",
            "inferred": discovery and inferring.as_json(discovery),
            "run": self._run,
        }
        made = Report(self.cells.values(), problems=found, **more)
        ended = about_code(self.code, explained=not made.ok)
        return Report(made.cells, problems=(*found, *ended), **more) if ended else made

    def _of_baseline(self) -> Iterator[str]:
        facts = self.facts
        return self.options.baseline.problems(facts.targets, facts.whole_files, self.config.rootpath)

    @cached_property
    def asked(self) -> Asked:
        """What the command line asks for."""
        return Asked.of(self.config)

    @property
    def _all_unchanged(self) -> bool:
        """Whether there is nothing to run, because nothing that changed reaches a cell."""
        return bool(self.facts.unchanged) and not (self.facts.selected or self.facts.deselected)

    def _left_out(self, item: pytest.Item) -> str:
        """The marker for which an item is left out: a hook may have put it on when the targets were collected."""
        _, *names = item.nodeid.split("[")[0].split("::")
        own = {mark.name for mark in item.own_markers}
        others = {mark.name for mark in item.iter_markers()} - own
        return self.asked.left_out(own, item.path, *names) or self.asked.left_out(others, item.path, *names[:-1])

    @property
    def _run(self) -> Run:
        shard = {name: value for name, value in self.facts.shard.items() if name != "checks"}
        return Run(
            effort=self.options.effort_name,
            devices=self.options.devices,
            versions=self._versions,
            shard=Shard(**shard) if shard else None,
            chosen=selection_scope.chosen(self.config, self.facts.deselected),
            left_out=self.facts.left_out_by_marker,
        )

    @cached_property
    def _versions(self) -> dict[str, str | None]:
        return versions()

    def _holds_targets(self, path: Path) -> bool:
        """Whether a path that is ignored would have been collected, where that is quick to see."""
        if path.is_file():
            return True
        passed_over = [*self.config.getini("norecursedirs"), "__pycache__", "node_modules"]
        if any(path.match(pattern) for pattern in passed_over) or (path / "pyvenv.cfg").exists():
            return False
        return any(True for pattern in self.options.files for _ in path.glob(pattern))

    def _is_target_file(self, path: Path) -> bool:
        return any(path.match(pattern) for pattern in self.options.files)

    def _conclude(self, cell: Cell) -> None:
        __tracebackhide__ = True
        if cell.outcome == "failed":
            repeated = repeats(cell, self.reported)
            self.reported.append(cell)
            pytest.fail(format_repeated(cell, *repeated) if repeated else format_failure(cell), pytrace=False)
        if cell.outcome == "known":
            if self.config.option.runxfail:
                pytest.fail(format_failure(cell), pytrace=False)
            pytest.xfail(cell.reason + (f" ({cell.see})" if cell.see else ""))
        if cell.outcome == "incomplete":
            pytest.fail(f"{cell.code}: incomplete: {cell.reason}", pytrace=False)
        if cell.outcome != "passed":
            pytest.skip(f"{cell.outcome}: {cell.reason}")


def _died(report: pytest.TestReport) -> Cell:
    """The cell of a worker that is gone: all that is known is its id."""
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


def _reason(longrepr: Any) -> str:
    text = str(longrepr[2]) if isinstance(longrepr, tuple) and len(longrepr) == 3 else str(longrepr)
    return " ".join(text.removeprefix("Skipped: ").split())[:200]


def _resolved(argument: str, config: pytest.Config) -> Path:
    return (Path(config.invocation_params.dir) / argument.partition("::")[0]).resolve()
