"""Collection of targets: which files are read, and what becomes of the targets in them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from pytest_evalcheck.engine.runner import choose_reporters
from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.integration.choosing import inferring, sharding, target_nodes
from pytest_evalcheck.integration.choosing.not_run import (
    RunFacts,
    defines_targets,
    targets_in_conftests,
    uncollected_targets,
)
from pytest_evalcheck.integration.choosing.selection import Selection
from pytest_evalcheck.integration.item_cells import runner_of
from pytest_evalcheck.integration.known import accepting
from pytest_evalcheck.integration.options import Options
from pytest_evalcheck.integration.process.exit_guard import looks
from pytest_evalcheck.kinds.common.calling import relative
from pytest_evalcheck.live_objects import made_to_stay
from pytest_evalcheck.targets.target import Target

COVERS_PROJECT = "evalcheck_covers_project"


@dataclass(eq=False)
class Collection:
    """The hooks that collect targets as classes of cells, and note in the facts of the run what is not selected."""

    config: pytest.Config
    options: Options
    selection: Selection
    facts: RunFacts
    made: list[tuple[dict[str, Any], Target]]
    """The targets that were made, each with the module that made it."""
    _seen: set[int] = field(default_factory=set)
    _with_targets: set[str] = field(default_factory=set)
    _files: dict[str, Path] = field(default_factory=dict)
    """The file of each node id: pytest gives files outside of the root directory ids that need not differ."""
    _reported_out: set[str] = field(default_factory=set)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> Generator[None, Any, bool | None]:
        """Ignore ordinary tests, and note the files of targets that others ignore."""
        ignored: bool | None = yield
        if collection_path.is_dir() or self._is_target_file(collection_path):
            if ignored and self._holds_targets(collection_path):
                self.facts.ignored[relative(str(collection_path))] = None
            return ignored
        folder = config.invocation_params.dir
        named = {(folder / argument.partition("::")[0]).resolve() for argument in config.args}
        if ignored or self.options.with_tests or collection_path.resolve() in named:
            return ignored
        # Beside what was inferred pytest looks at all that is in the folder of temporary files.
        inside = config.rootpath in collection_path.parents
        source = inside and collection_path.suffix == ".py" and collection_path.name != "conftest.py"
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
        """Collect files of targets, unless pytest takes them anyway."""
        patterns = parent.config.getini("python_files")
        by_pytest = parent.session.isinitpath(file_path) or any(file_path.match(p) for p in patterns)
        if file_path.suffix != ".py" or by_pytest or not self._is_target_file(file_path):
            return None
        module: pytest.Module = pytest.Module.from_parent(parent, path=file_path)
        return module

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makemodule(self, module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
        """Make the module of inferred targets, whose ids name what was asked for."""
        inferred = inferring.module_of(self.config, module_path)
        return pytest.Module.from_parent(parent, path=module_path, nodeid=inferred) if inferred else None

    def pytest_pycollect_makeitem(self, collector: Any, name: str, obj: object) -> Any:
        """Make a class of checks of a target."""
        if isinstance(collector, pytest.Module):
            self.facts.files[collector.nodeid] = None
        if not isinstance(obj, Target):
            return None
        if not isinstance(collector, pytest.Module):
            return []  # its file reports it
        self._seen.add(id(obj))
        self._with_targets.add(collector.nodeid)
        nodeid = f"{collector.nodeid}::{name}"
        first = self._files.setdefault(collector.nodeid, collector.path)
        if first != collector.path and inferring.module_of(self.config, collector.path):
            if nodeid in self.facts.found:  # it has run while the others were inferred
                return []
        elif first != collector.path:
            problem = (
                f"{collector.path} and {first} have one id, since the root directory is {self.config.rootpath}: the "
                "results of one would replace those of the other; name a folder that holds both, such as --rootdir=."
            )
            return target_nodes.bad_target(collector, name, problem)
        self.facts.found[nodeid] = obj.kind
        self.facts.own_checks.update({check.code: check.name for check in obj.extra_checks})
        if self.options.baseline.entries or accepting.writes(self.options):
            self.facts.targets[nodeid] = [check.code for check in obj.checks]
        self.facts.requires.update(dict.fromkeys(canonicalize_name(name) for name in obj.required))
        node, not_selected = target_nodes.collected(collector, name, obj, self.options, self.selection)
        self.facts.changed.update(self.selection.changed.run if self.selection.changed else {})
        self.facts.left_out.update({f"{reason} {nodeid}": count for reason, count in not_selected.items()})
        return [] if node is None else node

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        """Report a file that ends the process, has no target or a target without a name, as an error of that file."""
        # Other plugins collect a file a second time, such as its doctests, by modules of their own.
        collects = type(collector).collect is pytest.Module.collect
        if not (isinstance(collector, pytest.Module) and collects and self._is_target_file(collector.path)):
            return (yield)
        try:
            report = yield
        except (SystemExit, pytest.exit.Exception) as error:
            text = f"{relative(str(collector.path))}: importing this file tried to end the process: {error!r}"
            return pytest.CollectReport(collector.nodeid, "failed", longrepr=text, result=[])
        if report.passed:
            report.result.extend(self._bad_targets(collector, report.result))
        return report

    def _bad_targets(self, collector: pytest.Module, nodes: list[Any]) -> Iterator[target_nodes.BadTarget]:
        twice = {node.name for node in nodes if isinstance(node, target_nodes.BadTarget)}
        found = [*uncollected_targets(self.made, self._seen, collector.obj)]
        for name, problem in found:
            if name.partition(":")[0] not in twice:
                yield target_nodes.bad_target(collector, name, problem)
        if not (found or collector.nodeid in self._with_targets or (self.options.with_tests and nodes)):
            problem = (
                f"{relative(str(collector.path))} holds no target: decorate a function of it, with @ec.metric(...)"
            )
            yield target_nodes.bad_target(collector, "no target", problem)

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
        """Deselect ordinary tests, and the cells that run only on request."""
        kept: list[pytest.Item] = []
        out: list[pytest.Item] = []
        for item in items:
            ours = item.get_closest_marker("evalcheck") is not None
            runs = (ours or self.options.with_tests) and not self.selection.marker_against_item(item)
            (kept if runs else out).append(item)
        choose_reporters(filter(None, map(runner_of, kept)))
        if out:
            items[:] = kept
            deselected = dict(self.facts.deselected)  # what was taken out here was never asked for
            config.hook.pytest_deselected(items=out)
            self.facts.deselected = deselected
        if self.options.shard:
            self._select_shard(items, *self.options.shard)
        if not looks(config) and any(self.facts.unknown_optional(self.options.optional, whole=self._whole)):
            self._end_before_the_run(items)

    @property
    def _whole(self) -> bool:
        """True if the targets of the whole project were collected; a worker of xdist is told by its controller."""
        given = getattr(self.config, "workerinput", {}).get(COVERS_PROJECT)
        return self.facts.complete and (self.selection.covers_project() if given is None else given)

    def _end_before_the_run(self, items: list[pytest.Item]) -> None:
        """Run nothing; the verdict says why, of the facts of this process."""
        self._reported_out.update(item.nodeid for item in items)
        items.clear()

    def _select_shard(self, items: list[pytest.Item], number: int, of: int) -> None:
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
            skipped = report.longrepr
            text = str(skipped[2] if isinstance(skipped, tuple) and len(skipped) == 3 else skipped)
            self.facts.skipped[report.nodeid] = " ".join(text.removeprefix("Skipped: ").split())[:200]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note the cells that are to run."""
        ours = (item.nodeid for item in session.items if item.get_closest_marker("evalcheck"))
        self.facts.selected.update(dict.fromkeys(ours))
        pattern = f"a file named {self.options.files[0]}"
        plugins = self.config.pluginmanager.get_plugins()
        self.facts.problems.update(dict.fromkeys(targets_in_conftests(plugins, pattern)))
        self.made.clear()
        self._seen.clear()

    def _holds_targets(self, path: Path) -> bool:
        """Return whether a path that is ignored would have been collected, where that is quick to see."""
        if path.is_file():
            return True
        passed_over = [*self.config.getini("norecursedirs"), "__pycache__", "node_modules"]
        if any(path.match(pattern) for pattern in passed_over) or (path / "pyvenv.cfg").exists():
            return False
        return any(True for pattern in self.options.files for _ in path.glob(pattern))

    def _is_target_file(self, path: Path) -> bool:
        return any(path.match(pattern) for pattern in self.options.files)
