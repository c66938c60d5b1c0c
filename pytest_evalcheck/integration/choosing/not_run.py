"""Reasons why nothing ran, or less than was asked for: facts of a run, its problems and notes, and suggestions."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_evalcheck.engine.check_selection import CheckSelection
from pytest_evalcheck.engine.device_selection import SKIPPED
from pytest_evalcheck.errors import nearest
from pytest_evalcheck.integration.choosing import inferring
from pytest_evalcheck.integration.choosing.since import UNCHANGED
from pytest_evalcheck.integration.options import Options
from pytest_evalcheck.kinds.common.calling import relative
from pytest_evalcheck.kinds.registry import no_match, shipped
from pytest_evalcheck.reports.results import Cell, plural
from pytest_evalcheck.targets.device_spec import KINDS, nearest_kind
from pytest_evalcheck.targets.target import Target

_MOST = 3
_MOST_ENTRIES = 50_000
"""Entries of a project's folders that are looked at for files of targets."""
_LEAST_WORD = 4
_DECORATORS = ("metric", "wrapper", "decoder", "scorer", "loop", "task", "target")
_DECORATED = re.compile(rf"^@.*\b({'|'.join(_DECORATORS)})\b", re.MULTILINE)


@dataclass(kw_only=True)
class RunFacts:
    """Facts of a run beside its cells. Workers of xdist send it to their controller, which collects nothing itself.

    All fields are mappings, so that those of several workers are one when they are merged.
    """

    selected: dict[str, None] = field(default_factory=dict)
    """The node ids of the cells that were to run."""
    errors: dict[str, None] = field(default_factory=dict)
    """The node ids of what could not be collected."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Reasons why files were skipped as a whole, by file."""
    problems: dict[str, None] = field(default_factory=dict)
    """Lines about what is wrong."""
    dropped: dict[str, None] = field(default_factory=dict)
    """The cells that a hook took out without a report."""
    deselected: dict[str, None] = field(default_factory=dict)
    """The cells that were taken out, by options or by a plugin."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Numbers of cells that are not selected, by reason (a marker or `UNCHANGED`) and node id of the target."""
    changed: dict[str, int] = field(default_factory=dict)
    """Numbers of cells that run because what they depend on may have changed, by reason."""
    shard: dict[str, Any] = field(default_factory=dict)
    """The part of the run, and the number of cells of all parts; empty for the whole."""
    ignored: dict[str, None] = field(default_factory=dict)
    """The files and folders of targets that a configuration ignores."""
    unmatched: dict[str, None] = field(default_factory=dict)
    """Files that define targets, of names that no pattern matches."""
    targets: dict[str, list[str]] = field(default_factory=dict)
    """The codes of checks, by node id of the target that was collected; empty where no baseline needs it."""
    files: dict[str, None] = field(default_factory=dict)
    """The node ids of the files of targets that were read."""
    found: dict[str, str] = field(default_factory=dict)
    """The kinds of the targets that were seen, by node id."""
    own_checks: dict[str, str] = field(default_factory=dict)
    """The names of the checks that targets have beside the registered ones, by code."""
    tests: dict[str, None] = field(default_factory=dict)
    """The files of ordinary tests that were not selected."""
    requires: dict[str, None] = field(default_factory=dict)
    """The distributions that the collected targets require."""

    def merge(self, other: Mapping[str, Mapping[str, Any]]) -> None:
        """Add the facts of another process."""
        for each in fields(self):
            getattr(self, each.name).update(other.get(each.name, {}))

    @property
    def complete(self) -> bool:
        """True if every file that was found could be read."""
        return not (self.errors or self.skipped or self.ignored)

    @property
    def whole_files(self) -> list[str]:
        """The files of which all targets are known: they were read, and nothing of them is an error."""
        wrong = {nodeid.partition("::")[0] for nodeid in self.errors}
        return [file for file in self.files if file not in wrong]

    @property
    def left_out_by_reason(self) -> dict[str, dict[str, int]]:
        """Numbers of cells that are not selected, by reason and target."""
        found: dict[str, dict[str, int]] = {}
        for marked, count in self.left_out.items():
            reason, _, target = marked.partition(" ")
            found.setdefault(reason, {})[target] = count
        return found

    @property
    def unchanged(self) -> dict[str, int]:
        """Numbers of cells that no change affects, by node id of the target."""
        return self.left_out_by_reason.get(UNCHANGED, {})

    @property
    def all_unchanged(self) -> bool:
        """True if there is nothing to run, because no change affects a cell."""
        return bool(self.unchanged) and not (self.selected or self.deselected)

    def problems_with(self, cells: Mapping[str, Cell], failed: Iterable[str], *, runxfail: bool) -> Iterator[str]:
        """Yield what is wrong beside the outcomes of checks; ``failed`` are the node ids that pytest reports as failed.

        With ``runxfail`` pytest reports known failures so, as it was asked to.
        """
        yield from self.problems
        if self.errors:
            yield f"{plural(len(self.errors), 'error')} while collecting ({_first_few(self.errors)})"
        if self.dropped:
            dropped = f"{plural(len(self.dropped), 'check')} of {_targets(self.dropped)}"
            yield f"{dropped} taken out by a hook that does not report it"
        if rest := [nodeid for nodeid in self.selected if nodeid not in cells]:
            yield f"{len(rest)} of {plural(len(self.selected), 'selected check')} did not run ({_targets(rest)})"
        outcomes = {nodeid: cells[nodeid].outcome if nodeid in cells else None for nodeid in failed}
        known = sum(runxfail and outcome == "known" for outcome in outcomes.values())
        if known:
            yield f"{plural(known, 'known failure')} counted as failed, for --runxfail"
        red = ("failed", "incomplete", "not run", *(["known"] if known else []))
        if beside := [nodeid for nodeid, outcome in outcomes.items() if outcome not in red]:
            yield f"{len(beside)} failed in pytest beside the outcomes of checks ({_first_few(beside)})"

    def problems_with_optional(self, optional: Iterable[str], *, whole: bool) -> Iterator[str]:
        """Yield the files that may not be skipped as a whole, and what `unknown_optional` yields."""
        if SKIPPED not in optional:
            yield from (f"{file} was skipped ({why})" for file, why in self.skipped.items())
        yield from self.unknown_optional(optional, whole=whole)

    def unknown_optional(self, optional: Iterable[str], *, whole: bool) -> Iterator[str]:
        """Yield a line about each name in ``evalcheck_optional`` that matches nothing.

        In a run over a part of the files a name that is near to none may be required by the rest.
        """
        known = [*KINDS[1:], SKIPPED, *self.requires]
        for name in (name for name in optional if name not in known):
            near = nearest(name, known, cutoff=0.75) or nearest_kind(name, KINDS[1:])
            if whole or near:
                expected = f"expected a kind of device ({', '.join(KINDS[1:])}), {SKIPPED}, or what a target requires"
                yield f"evalcheck_optional names {name!r}; {expected}{near}"

    def notes(
        self,
        by_configuration: Iterable[str],
        optional: Iterable[str],
        *,
        since: str = "",
        verbose: bool = False,
        brief: bool = False,
    ) -> Iterator[str]:
        """Yield lines for the screen about what was not selected, and by whom; with all names where ``verbose``.

        ``since`` is the revision of ``--evalcheck-since``. Where ``brief``, ordinary tests are not mentioned, and
        of markers only those of targets of which nothing ran.
        """
        yield from (f"not selected, by the configuration: {text}" for text in by_configuration)
        if self.shard:
            counts = f"{len(self.selected)} of {self.shard['checks']} checks"
            part = f"shard {self.shard['number']}/{self.shard['of']}: {counts}"
            yield f"{part}; python -m pytest_evalcheck merge joins the JSON reports of all shards"
        if self.deselected:
            count = plural(len(self.deselected), "check")
            yield f"not selected: {count} of {_targets(self.deselected)}, which pytest calls deselected"
        ran = {nodeid.rpartition("::")[0] for nodeid in self.selected} if brief else set()
        for reason, by_target in sorted(self.left_out_by_reason.items()):
            counted = {target: count for target, count in by_target.items() if target not in ran}
            cells, targets = plural(sum(counted.values()), "check"), plural(len(counted), "target")
            if counted and reason != UNCHANGED:
                yield f"not selected: {cells} of {targets} in {_targets(counted, verbose)}; -m {reason} runs them"
        if since:
            yield from self._notes_of_changes(since, verbose)
        yield from (f"not selected: {path}, which the configuration ignores" for path in self.ignored)
        if self.tests and not brief:
            which = next(iter(self.tests)) if len(self.tests) == 1 else f"{len(self.tests)} files"
            yield f"not selected: the ordinary tests of {which}; --evalcheck-with-tests runs them, too"
        if self.unmatched:
            yield f"not collected: targets in {_first_few(self.unmatched)}; no pattern of evalcheck_files matches"
        if SKIPPED in optional:
            yield from (f"not run: {file} was skipped ({why})" for file, why in self.skipped.items())

    def _notes_of_changes(self, since: str, verbose: bool) -> Iterator[str]:
        reasons = sorted(self.changed.items(), key=lambda each: -each[1])
        shown = reasons if verbose else reasons[:_MOST]
        yield from (f"selected: {plural(count, 'check')}: {reason}" for reason, count in shown)
        if rest := sum(count for _, count in reasons[len(shown) :]):
            yield f"selected: {plural(rest, 'check')} for other reasons, with -v"
        if self.unchanged:
            cells, targets = plural(sum(self.unchanged.values()), "check"), plural(len(self.unchanged), "target")
            where = f" ({', '.join(self.unchanged)})" if verbose else ""
            yield f"not selected: {cells} of {targets} unchanged since {since}{where}; --evalcheck-since= runs them"


def _targets(nodeids: Iterable[str], verbose: bool = False) -> str:
    if verbose:
        return ", ".join(nodeids)
    # A target that is inferred has no file.
    return _first_few(dict.fromkeys(nodeid.rpartition("::")[0] or nodeid.removeprefix("::") for nodeid in nodeids))


def _first_few(texts: Iterable[str]) -> str:
    once = list(texts)
    more = f" and {len(once) - _MOST} more" if len(once) > _MOST else ""
    return ", ".join(once[:_MOST]) + more


# Suggestions where no cell was collected.


@dataclass(frozen=True)
class _Names:
    """Names that a choice may match."""

    kinds: Mapping[str, str]
    """The kinds of the targets, by node id."""
    checks: Mapping[str, str]
    """The names of the checks of these kinds, by code."""

    @property
    def words(self) -> list[str]:
        """Codes, names of targets, and the longer words of the names of checks."""
        parts = {word for name in self.checks.values() for word in name.split("_") if len(word) >= _LEAST_WORD}
        return [*self.checks, *(target.rpartition("::")[2] for target in self.kinds), *sorted(parts)]

    def match(self, word: str) -> bool:
        """Return whether ``-k`` finds the word in the id of a cell."""
        names = (*self.kinds, *self.checks, *self.checks.values(), *("[cpu]", "[cuda]", "[mps]", "sim:"))
        return any(word.lower() in name.lower() for name in names)


def suggestions(config: pytest.Config, options: Options, facts: RunFacts) -> Iterator[str]:
    """Yield a line for each choice of the command line that matches nothing, with what is near to it."""
    of_kinds = {c.code: c.name for c in shipped() if not set(c.kinds).isdisjoint(facts.found.values())}
    names = _Names(facts.found, {**of_kinds, **facts.own_checks})
    for argument in config.args:
        yield from _about_argument(config, argument, names, options.files)
    if not facts.found:
        return
    expression = str(config.option.keyword or "")
    unmatched = [word for word in _words(expression, r"[^\s()]+") if not names.match(word)]
    for word in unmatched:
        near = _near(word, names.words)
        yield f"-k {expression!r}: no id has {word!r} in it, and no check has this code{near}"
    if expression and not unmatched:
        yield f"-k {expression!r} matches none of the checks of {plural(len(names.kinds), 'target')}"
    expression = str(config.option.markexpr or "")
    markers = sorted({re.split(r"[:(]", line, maxsplit=1)[0].strip() for line in config.getini("markers")})
    unknown = [word for word in _words(expression, r"\w+") if word not in markers]
    for word in unknown:
        yield f"-m {expression!r}: no marker is called {word!r}{_near(word, markers)}"
    if expression and not unknown:
        yield f"-m {expression!r} matches none of the checks here"
    for word in CheckSelection.of(options.select, "").select:
        yield from _about_check(word, names)


def _about_argument(config: pytest.Config, argument: str, names: _Names, patterns: Sequence[str]) -> Iterator[str]:
    given, *rest = argument.split("::")
    path = (config.invocation_params.dir / given).resolve()
    if not path.exists():
        beside = sorted(entry.name for entry in path.parent.iterdir()) if path.parent.is_dir() else []
        found = [relative(str(file)) for file in _target_files(config, patterns) if file.name == path.name]
        near = f"; there is {found[0]}" if found else nearest(path.name, beside)
        yield f"there is no file or folder {given}{near}"
        return
    module = inferring.module_of(config, path)
    given = module or given
    targets = {
        target.partition("::")[2]: kind
        for target, kind in names.kinds.items()
        if (file := target.partition("::")[0]) == module or (config.rootpath / file).resolve() == path
    }
    if not (rest and targets):
        return
    name, bracket, _ = rest[0].partition("[")
    if name not in targets:
        yield f"{given} has no target {name!r}{nearest(name, targets)}"
        return
    if bracket:
        yield f"an id is {given}::{name}::CHECK[DEVICE], where CHECK is the code or the name of a check"
        return
    checks = {c.code: c.name for c in shipped() if targets[name] in c.kinds} | dict(names.checks)
    check, _, device = rest[1].partition("[") if len(rest) > 1 else ("", "", "")
    if check and check not in checks.values():
        begins = next((f"; did you mean {full!r}?" for full in checks.values() if full.startswith(check)), "")
        yield f"{given}::{name} has no check {check!r}{begins or nearest(check, [*checks, *checks.values()])}"
    elif device:
        yield f"{given}::{name}::{check} does not run on {device.rstrip(']')!r} here; --evalcheck-device names devices"


def _about_check(word: str, names: _Names) -> Iterator[str]:
    if any(code.startswith(word.upper()) or name.startswith(word) for code, name in names.checks.items()):
        return
    if found := [check for check in shipped() if CheckSelection((word,)).selects(check)]:
        kinds = ", ".join(sorted({kind for check in found for kind in check.kinds}))
        here = f"{plural(len(names.kinds), 'target')} of the kind {', '.join(sorted(set(names.kinds.values())))}"
        yield f"{word} is about targets of the kind {kinds}; here are {here}"
    else:
        yield no_match(word, names.checks)


def _words(expression: str, pattern: str) -> Iterator[str]:
    """Yield the words of an expression that must match; what ``not`` excludes need not."""
    for before, word in pairwise(["", *re.findall(pattern, expression)]):
        if word not in ("and", "or", "not") and before != "not":
            yield word


def _near(word: str, words: Sequence[str]) -> str:
    return nearest(word, words) or nearest(word.upper(), words)


def target_files_outside(config: pytest.Config, patterns: Sequence[str], *, found: bool) -> Iterator[str]:
    """Yield a line about the files of targets that the run does not reach.

    With ``testpaths`` always, since nobody named them on the command line; else where none was ``found``.
    """
    of_ini = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if found and not of_ini:
        return
    given = [(config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args]
    paths = [p for p in _target_files(config, patterns) if not any(each == p or each in p.parents for each in given)]
    if paths:
        files = [relative(str(path)) for path in paths]
        folders = list(dict.fromkeys(Path(file).parent.as_posix() for file in files))
        command = f"pytest --evalcheck {' '.join(folders[:_MOST])} runs {'it' if len(files) == 1 else 'them'}"
        where = f"testpaths = {' '.join(config.getini('testpaths'))}" if of_ini else "what pytest was given"
        more = ", or add the folder to testpaths" if of_ini else ""
        yield f"not selected: {_first_few(files)}: outside of {where}; {command}{more}"


def _target_files(config: pytest.Config, patterns: Sequence[str]) -> list[Path]:
    """Return the files below the root whose names match a pattern, without folders that pytest does not enter."""
    passed_over = [*config.getini("norecursedirs"), "__pycache__", "node_modules", "site-packages"]
    found: list[Path] = []
    entries = 0
    for folder, folders, files in os.walk(config.rootpath):
        here = Path(folder)
        entries += len(files) + len(folders)
        if entries > _MOST_ENTRIES:
            break
        if "pyvenv.cfg" in files or "conda-meta" in folders:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not any((here / name).match(p) for p in passed_over))
        paths = (here / name for name in sorted(files) if name.endswith(".py"))
        found += [path.resolve() for path in paths if any(path.match(pattern) for pattern in patterns)]
    return found


# Targets that pytest would not collect without a word: each becomes an error that says where it is.


def uncollected_targets(
    made: Iterable[tuple[Mapping[str, Any], Target]], seen: Collection[int], module: Any
) -> Iterator[tuple[str, str]]:
    """Yield the names and the problems of the targets that a module made and that were not collected from it."""
    problems: dict[str, str] = {}
    for namespace, target in made:
        if id(target) in seen or namespace is not vars(module):
            continue
        why = _whereabouts(namespace, target)
        where = f"{relative(target.file)}:{target.line}: target {target.name} is not collected: {why}"
        rule = "a target is collected by its name at the top level of its file"
        problems.setdefault(f"{target.name}:{target.line}", f"{where}; {rule}")
    yield from problems.items()


def targets_in_conftests(plugins: Iterable[Any], pattern: str) -> Iterator[str]:
    """Yield the problems of targets that stand in a conftest.py."""
    for plugin in plugins:
        file = str(getattr(plugin, "__file__", "") or "")
        if not isinstance(plugin, ModuleType) or Path(file).name != "conftest.py":
            continue
        for name, value in vars(plugin).items():
            if isinstance(value, Target) and Path(value.written[0]).resolve() == Path(file).resolve():
                yield f"{relative(file)}:{value.line}: target {name} stands in a conftest.py; move it to {pattern}"


def defines_targets(path: Path) -> bool:
    """Return whether a file decorates a function at its top level with one of our decorators; it is not imported."""
    try:
        text = path.read_text(encoding="utf-8")
        # Most files have no such line, and need not be parsed.
        tree = ast.parse(text if "pytest_evalcheck" in text and _DECORATED.search(text) else "")
    except (OSError, SyntaxError, ValueError):
        return False
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    called = [item.func for node in functions for item in node.decorator_list if isinstance(item, ast.Call)]
    return any(
        (item.attr if isinstance(item, ast.Attribute) else getattr(item, "id", "")) in _DECORATORS for item in called
    )


def _whereabouts(names: Mapping[str, Any], target: Target) -> str:
    for name, value in names.items():
        if isinstance(value, type):
            if any(item is target for item in vars(value).values()):
                return f"it is an attribute of the class {name}"
        elif isinstance(value, (list, tuple, set, frozenset, Mapping)):
            if any(item is target for item in (value.values() if isinstance(value, Mapping) else value)):
                return f"it is held in {name}"
        elif _wraps(value, target):
            return "another decorator stands above that of the target and replaced it"
    if names.get("__test__") is False:
        return "the file says __test__ = False"
    return "its name was taken by something else, or it never had one"


def _wraps(value: Any, target: Target) -> bool:
    if callable(value) and getattr(value, "__dict__", {}).get("__wrapped__") is target:
        return True
    for cell in getattr(value, "__closure__", None) or ():
        try:
            if cell.cell_contents is target:
                return True
        except ValueError:  # it is empty
            continue
    return False
