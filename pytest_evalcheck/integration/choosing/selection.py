"""Selection of the checks of a run, and the reason why another one is not selected."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pytest

from pytest_evalcheck.engine.check_selection import CheckSelection
from pytest_evalcheck.engine.device_selection import devices_of
from pytest_evalcheck.integration.choosing.since import UNCHANGED, ChangedSince
from pytest_evalcheck.integration.options import Options
from pytest_evalcheck.kinds.common.check import Check
from pytest_evalcheck.kinds.registry import shipped
from pytest_evalcheck.targets.target import Target

ON_REQUEST = ("distributed", "sweep", "full")
"""Markers whose checks run only where -m names them."""
_BY_FILE = ("full",)
_EXPRESSIONS = ("-k ", "-m ")


@dataclass
class Selection:
    """Answers for every check of a run whether it is selected."""

    config: pytest.Config
    options: Options
    changed: ChangedSince | None = None
    _written: dict[str, str] = field(default_factory=dict)
    """Node ids with the name of a check, by how the command line writes them with its code."""

    def __post_init__(self) -> None:
        """Write codes of checks in node ids as their names: ``file::target::EC201`` is a node, too."""
        names = {check.code: check.name for check in shipped()}
        for index, argument in enumerate(self.config.args):
            *before, last = argument.split("::")
            word, bracket, device = last.partition("[")
            if len(before) == 2 and word.upper() in names:
                self.config.args[index] = "::".join([*before, f"{names[word.upper()]}{bracket}{device}"])
                self._written[self.config.args[index]] = argument

    def checks_of(self, target: Target) -> Sequence[tuple[Check, list[str]]]:
        """Return the checks of a target that the options select, each with its devices."""
        options = self.options
        selection = CheckSelection.of(options.select, options.ignore)
        replayed = options.replay[0] if options.replay else None
        checks = [check for check in target.checks if selection.selects(check) and replayed in (None, check.code)]
        found = [(check, devices_of(target, check, options.devices)) for check in checks]
        return [(check, devices) for check, devices in found if devices]

    def reason_against(
        self, path: Path, name: str, target: Target, check: Check, *, markers: Iterable[str], cells: int
    ) -> str:
        """Return why a check of a target is not selected: a marker, or `UNCHANGED`; '' where it runs.

        ``markers`` are those of the target, and ``cells`` says on how many devices the check is tried.
        """
        marker = self.marker_against(markers, path, name) or self.marker_against(check.marks, path, name, check.name)
        if marker or self.changed is None or self._names_node(path, name, check.name):
            return marker
        return UNCHANGED if self.changed.skips(path, target, check, cells=cells) else ""

    def marker_against(self, markers: Iterable[str], path: Path, *names: str) -> str:
        """Return the marker for which a target, or a check of it, is not selected; '' where it runs.

        ``names`` are that of the target, and that of the check where the markers are those of the check. A node that
        the command line names runs, and so does each target of a file that it names, but for sweeps and processes.
        """
        own = [marker for marker in ON_REQUEST if marker in markers]
        found = [marker for marker in own if marker not in str(self.config.option.markexpr)]
        if len(found) < len(own):  # what -m names runs in files that are not part of the short run, too
            found = [marker for marker in found if marker not in _BY_FILE]
        if not found:
            return ""
        path = path.resolve()
        nodes = [given for where, given in self._named if where == path]
        if any(given[: len(names)] == names for given in nodes):
            return ""
        return next((marker for marker in found if not (marker in _BY_FILE and () in nodes)), "")

    def marker_against_item(self, item: pytest.Item) -> str:
        """Return the marker for which an item is not selected: a hook may have added it after collection."""
        _, *names = item.nodeid.split("[")[0].split("::")
        own = {mark.name for mark in item.own_markers}
        others = {mark.name for mark in item.iter_markers()} - own
        return self.marker_against(own, item.path, *names) or self.marker_against(others, item.path, *names[:-1])

    def _names_node(self, path: Path, *names: str) -> bool:
        path = path.resolve()
        return any(where == path and given and given == names[: len(given)] for where, given in self._named)

    @cached_property
    def _named(self) -> list[tuple[Path, tuple[str, ...]]]:
        """Each argument of the command line as a resolved path and the names behind it, without parameters."""
        parts = [argument.split("[")[0].split("::") for argument in self.config.args]
        return [((self.config.invocation_params.dir / path).resolve(), tuple(names)) for path, *names in parts]

    # What the command line narrows a run to is known to whoever reads the result; what a configuration does may not be.

    def by_command_line(self, deselected: Collection[str]) -> tuple[str, ...]:
        """Return the choices, files and folders of the command line.

        An expression that deselects nothing, such as ``-m "full or not full"``, is no choice.
        """
        config = self.config
        found = [text for text in self._on_command_line if deselected or not text.startswith(_EXPRESSIONS)]
        named = config.args if config.args_source is pytest.Config.ArgsSource.ARGS else []
        folder = config.invocation_params.dir
        return (*found, *(name for name in named if "::" not in name and (folder / name).resolve() != config.rootpath))

    def by_configuration(self) -> list[str]:
        """Return the choices of the ini file or the environment."""
        found = [text for text, _ in self._choices() if text not in self._on_command_line]
        return [*found, *filter(None, [self.options.selected_by_ini])]

    def splits_targets(self, selected: Iterable[str], deselected: Iterable[str]) -> bool:
        """Return whether the command line may have selected a part of a target, whose verdict then says less.

        An expression that selects whole targets, such as ``-m full``, does not; other choices count as if they did.
        """
        if any(not text.startswith(_EXPRESSIONS) for text in self._on_command_line):
            return True
        targets = {nodeid.rpartition("::")[0] for nodeid in selected}
        return bool(self._on_command_line) and any(nodeid.rpartition("::")[0] in targets for nodeid in deselected)

    def covers_project(self) -> bool:
        """Return whether the files of all targets of the project were looked for."""
        config, sources = self.config, pytest.Config.ArgsSource
        from_the_root = config.args_source is sources.TESTPATHS or (
            config.args_source is sources.INVOCATION_DIR and config.invocation_params.dir == config.rootpath
        )
        by_expressions = all(text.startswith(_EXPRESSIONS) for text in self._on_command_line)
        return from_the_root and by_expressions and not (config.option.ignore or config.option.ignore_glob)

    @property
    def _on_command_line(self) -> list[str]:
        words = [str(word) for word in self.config.invocation_params.args]
        return [text for text, value in self._choices() if any(value in word for word in words)]

    def _choices(self) -> Iterator[tuple[str, str]]:
        """Yield each choice, and the text by which it is found on a command line."""
        option = self.config.option
        for name, flag in (("keyword", "-k"), ("markexpr", "-m")):
            if value := getattr(option, name, ""):
                yield f"{flag} {value!r}", value
        for name, flag, text in (("lf", "--last-failed", "--l"), ("stepwise", "--stepwise", "--s")):
            if getattr(option, name, False):
                yield flag, text
        for value in getattr(option, "deselect", None) or ():
            yield f"--deselect {value}", value
        for argument in self.config.args:
            if "::" in argument:
                yield argument, self._written.get(argument, argument)
        for name in ("select", "ignore", "replay"):
            if value := self.config.getoption(f"evalcheck_{name}"):
                yield f"--evalcheck-{name}={value}", str(value)
