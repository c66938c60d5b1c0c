"""``--evalcheck-since REV``: which files have changed since a revision, and whose verdict they can change."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.machinery import PathFinder
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from pytest_evalcheck.adapters.lookup import modules_of
from pytest_evalcheck.errors import UsageError, nearest
from pytest_evalcheck.integration.choosing.imports import Imports, Source, modules_in, plain, within
from pytest_evalcheck.kinds.common.check import Check
from pytest_evalcheck.kinds.registry import ENTRY_POINTS
from pytest_evalcheck.reports.results import plural
from pytest_evalcheck.targets.target import Target

UNCHANGED = "unchanged"
"""What `Facts.left_out` has in place of a marker."""

_SINCE = "evalcheck_since"
_CONFTEST = "conftest.py"
_LEFT_BY_RUNS = (
    "**/__pycache__/**",
    "**/*.pyc",
    "**/.pytest_cache/**",
    "**/.hypothesis/**",
    "**/.coverage",
    "**/.coverage.*",
)
_SETTINGS = tuple(
    f":(top,glob)**/{name}" for name in ("*.yaml", "*.yml", "*.toml", "*.json", "*.ini", "*.cfg", "setup.py")
)
"""What may name modules for others to import."""
_OF_INSTALLATIONS = ("setup.py", "sitecustomize.py", "usercustomize.py")
"""Python files that act on all others without being imported by them."""


@dataclass(frozen=True)
class Changes:
    """What differs between a revision and the files as they are now."""

    since: str
    """The revision, as it was given."""
    top: str
    files: tuple[str, ...]
    """All Python files that git knows or does not ignore, and those that were deleted since."""
    ignored: tuple[str, ...]
    """Python files that git ignores: whether they changed cannot be seen."""
    python: Mapping[str, str]
    """The Python files that changed, each with the letter that git has for how."""
    others: tuple[str, ...]
    """The other files that changed, but for those that are declared irrelevant."""
    settings: tuple[str, ...]
    """Files that may name modules."""

    @classmethod
    def since_revision(cls, folder: Path, revision: str, irrelevant: Sequence[str], outputs: Iterable[Path]) -> Changes:
        """What changed since a revision, of the repository of a folder; ``outputs`` are files that this run writes.

        Raises:
            UsageError: when this cannot be seen: no git, no repository, no such revision.
        """
        git = _Git.of(folder, revision)
        commit = git.commit()
        for pattern in irrelevant:
            if not pattern or pattern.startswith("/") or ".." in pattern.split("/"):
                expected = "a pattern from the top of the repository, such as docs/**/*.md"
                raise UsageError(f"evalcheck_irrelevant has {pattern!r}; expected {expected}")
        excluded = [f":(top,exclude,glob){pattern}" for pattern in irrelevant]
        by_runs = [f":(top,exclude,glob){pattern}" for pattern in _LEFT_BY_RUNS]
        written = {inside for path in outputs if (inside := within(git.top, path)) is not None}
        changed = {path: letter for path, letter in git.differing(commit, excluded) if path not in written}
        tracked, hidden = git.tracked()
        # A submodule is listed with its files; git does not look at what it was told is unchanged.
        untracked = git.listed("-o", "--exclude-standard", "--", ":(top)", *excluded, *by_runs)
        changed.update({path: "A" for path in untracked if path not in written and path not in changed})
        changed.update({path: "M" for path in hidden if path not in changed})
        python = {path: how for path, how in changed.items() if _is_python(path)}
        everything = git.listed("-o", "--exclude-standard")
        known = {path for path in (*tracked, *everything, *python) if path.endswith(".py")}
        wanted = [f":(top,glob){pattern}" for pattern in irrelevant]
        harmless = {path for path in (git.listed("-o", "--", *wanted) if wanted else ()) if path.endswith(".py")}
        return cls(
            since=revision,
            top=str(git.top),
            files=tuple(sorted(known | harmless)),
            ignored=tuple(sorted({*git.ignored()} - known - harmless)),
            python=dict(sorted(python.items())),
            others=tuple(sorted(set(changed) - set(python))),
            settings=tuple(sorted(set(git.listed("-c", "-o", "--exclude-standard", "--", *_SETTINGS, *excluded)))),
        )

    @classmethod
    def from_json(cls, text: str) -> Changes:
        """The changes that a controller of xdist has seen."""
        read = json.loads(text)
        lists = {name: tuple(read[name]) for name in ("files", "ignored", "others", "settings")}
        return cls(**{**read, **lists})

    @property
    def none(self) -> bool:
        """Whether nothing differs that may matter."""
        return not (self.python or self.others)


def _is_python(path: str) -> bool:
    return path.endswith(".py") and PurePosixPath(path).name not in _OF_INSTALLATIONS


@dataclass(frozen=True)
class _Git:
    top: Path
    revision: str

    @classmethod
    def of(cls, folder: Path, revision: str) -> _Git:
        made = cls(folder, revision)
        answer = made.ask("rev-parse", "--show-toplevel")
        if answer.returncode:
            if "not a git repository" in answer.stderr:
                raise UsageError(f"{made}: {str(folder)!r} is in no git repository; expected one that has the revision")
            raise UsageError(f"{made}: {_last_line(answer.stderr)}")
        return cls(Path(answer.stdout.rstrip("\n")).resolve(), revision)

    def __str__(self) -> str:
        return f"--evalcheck-since {self.revision}"

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["git", "-C", str(self.top), "--no-optional-locks", *arguments]
        try:
            return subprocess.run(
                command,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                encoding="utf-8",
                errors="surrogateescape",
                env={**os.environ, "LC_ALL": "C"},
                check=False,
            )
        except OSError as error:
            why = "git is not installed, or not on PATH" if isinstance(error, FileNotFoundError) else str(error)
            raise UsageError(f"{self}: {why}; it is needed to see what changed") from error

    def answer(self, *arguments: str) -> list[str]:
        """What a command prints, cut where it has a NUL."""
        answer = self.ask(*arguments)
        if answer.returncode:
            raise UsageError(f"{self}: git {arguments[0]} failed: {_last_line(answer.stderr)}")
        return [text for text in answer.stdout.split("\0") if text]

    def commit(self) -> str:
        answer = self.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{self.revision}^{{commit}}")
        if not answer.returncode:
            return answer.stdout.strip()
        text = f"{self}: there is no such revision; expected a branch, a tag or a commit of this repository"
        names = self.ask("for-each-ref", "--format=%(refname:short)").stdout.split()
        text += nearest(self.revision, names) or (
            f", such as {', '.join(names[:3])}" if names else ", which has no commit yet"
        )
        if self.ask("rev-parse", "--is-shallow-repository").stdout.strip() == "true":
            remote, _, branch = self.revision.partition("/")
            remotes = self.ask("remote").stdout.split()
            name = branch if remote in remotes and branch else self.revision
            where = remote if remote in remotes and branch else (remotes or ["origin"])[0]
            text += (
                f". This is a shallow clone, which may lack it: git fetch {where} {name}:refs/remotes/{where}/{name}, "
                "or git fetch --unshallow (actions/checkout: fetch-depth: 0)"
            )
        raise UsageError(text)

    def differing(self, commit: str, excluded: Iterable[str]) -> Iterator[tuple[str, str]]:
        """The paths that differ between a commit and the files as they are, staged or not, each with a letter."""
        options = ("--raw", "-z", "--no-renames", "--ignore-submodules=none", "--no-ext-diff", "--no-textconv")
        fields = self.answer("diff", *options, commit, "--", ":(top)", *excluded)
        for head, path in zip(fields[::2], fields[1::2], strict=True):
            # A submodule, as if it were a file of data: its own files are not compared.
            submodule = "160000" in head.split()[0] + head.split()[1]
            yield (f"{path}/" if submodule else path), head.split()[-1][:1]

    def tracked(self) -> tuple[list[str], list[str]]:
        """The files of the index, those of submodules too, and those that git was told not to look at."""
        tagged = [entry.partition(" ") for entry in self.answer("ls-files", "-v", "-z", "--full-name")]
        hidden = [path for tag, _, path in tagged if tag.islower() or (tag == "S" and (self.top / path).exists())]
        return self.listed("-c", "--recurse-submodules"), hidden

    def listed(self, *arguments: str) -> list[str]:
        return self.answer("ls-files", "-z", "--full-name", *arguments)

    def ignored(self) -> Iterator[str]:
        """The Python files that git ignores, but for those of environments."""
        for path in self.listed("-o", "-i", "--exclude-standard", "--directory"):
            if path.endswith(".py"):
                yield path
            elif path.endswith("/"):
                for where, folders, names in os.walk(self.top / path):
                    environment = "pyvenv.cfg" in names or Path(where).name in ("site-packages", "dist-packages")
                    folders[:] = [] if environment else [name for name in folders if name != "__pycache__"]
                    inside = Path(where).relative_to(self.top)
                    yield from (
                        (inside / name).as_posix() for name in names if name.endswith(".py") and not environment
                    )


@dataclass
class ChangedSince:
    """Which cells of a run something reaches that has changed."""

    changes: Changes
    config: pytest.Config
    run: dict[str, int] = field(default_factory=dict)
    """By reason: how many cells are not left out."""
    _sources: dict[str, Source] = field(default_factory=dict)
    _lookup: _Lookup | None = None

    def leaves_out(self, path: Path, target: Target, check: Check, *, cells: int) -> bool:
        """Whether nothing that changed reaches a check of a target; else its cells are counted by the reason."""
        reason = self.why(path, target, check)
        if reason:
            self.run[reason] = self.run.get(reason, 0) + cells
        return not reason

    def why(self, path: Path, target: Target, check: Check) -> str:
        """Why the verdict of a check of a target in a file may have changed; empty where it cannot have."""
        if self.everything:
            return self.everything
        files = [within(self._top, each) for each in dict.fromkeys((path, Path(target.file)))]
        known = [file for file in files if file in self._known]
        if len(known) < len(files):
            return "its file is not in the repository, or git ignores it"
        lookup = self._current
        starts = (*known, *lookup.of_check(target.kind, check), *self._conftests(known))
        if starts not in lookup.why:
            lookup.why[starts] = self._reached(lookup, starts)
        return lookup.why[starts]

    def clause(self, left_out: Mapping[str, int], *, whole: bool) -> str:
        """What the last line says of the cells that are left out, by target; ``whole`` where there are no others."""
        count, since = sum(left_out.values()), self.changes.since
        if not count:
            return ""
        if not whole:
            return f"{count} left out (unchanged since {since})"
        if self.changes.none:
            return f"nothing changed since {since}, {plural(count, 'check')} left out"
        return f"nothing that changed since {since} reaches a check, {plural(count, 'check')} left out"

    def _reached(self, lookup: _Lookup, starts: tuple[str, ...]) -> str:
        reached = lookup.imports.reach((*starts, *lookup.shared))
        if found := sorted(reached.files & set(self.changes.python)):
            return f"{found[0]} changed since {self.changes.since}"
        if found := sorted(reached.files & set(self.changes.ignored)):
            return f"git ignores {found[0]}, so that nobody sees whether it changed"
        if reached.unknown and self.changes.python:
            file, why = min(reached.unknown.items())
            return f"{file} may import anything: {why}"
        return ""

    @cached_property
    def everything(self) -> str:
        """Why every cell runs; empty where it does not."""
        since = self.changes.since
        if self.changes.others:
            more = len(self.changes.others) - 1
            beside = f" and {plural(more, 'other file')} which no import shows" if more else ""
            name = self.changes.others[0].rstrip("/")
            return f"{name}{beside} changed since {since} (evalcheck_irrelevant names what cannot matter)"
        outside = [path for path in sys.path if path and within(self._top, Path(path)) is None]
        for path in (path for path, how in self.changes.python.items() if how != "M"):
            parts = PurePosixPath(path.removesuffix("/__init__.py").removesuffix(".py"))
            if plain(parts.parent) in self._current.imports.roots and (
                parts.name in sys.stdlib_module_names or PathFinder.find_spec(parts.name, outside)
            ):
                return f"{path} was added or deleted since {since}, and hides another module of this name"
        return ""

    @property
    def _top(self) -> Path:
        return Path(self.changes.top)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.changes.files)

    @property
    def _current(self) -> _Lookup:
        """Where names are looked up now: importing a file of targets may change ``sys.path``, and load plugins."""
        plugins = self.config.pluginmanager.get_plugins()
        key = (*sys.path, *sorted(map(id, plugins)))
        if self._lookup is None or self._lookup.key != key:
            self._lookup = self._looked_up(key, plugins)
        return self._lookup

    def _looked_up(self, key: tuple[Any, ...], plugins: Iterable[Any]) -> _Lookup:
        imports = Imports(
            self._top,
            frozenset((*self.changes.files, *self.changes.ignored)),
            tuple(sorted(self._roots())),
            frozenset(modules_in(self._top, sys.modules)),
            self._sources,
        )
        made = _Lookup(key, imports)
        names = {type(plugin).__module__ for plugin in plugins}
        names |= {entry.value.partition(":")[0] for entry in importlib.metadata.entry_points(group=ENTRY_POINTS)}
        of_plugins = modules_in(self._top, {str(id(plugin)): plugin for plugin in plugins})
        loaded = {file for file in of_plugins if PurePosixPath(file).name != _CONFTEST}
        of_settings = (file for name in self.changes.settings for file in imports.named_in(name))
        made.shared = tuple(sorted({*made.of_modules(names), *loaded, *of_settings}))
        return made

    def _conftests(self, files: Iterable[str]) -> Iterator[str]:
        """The files ``conftest.py`` above some files, and others that the run may load and whose hooks see every item.

        Fixtures are for the folder of their file alone.
        """
        for conftest, has_hooks in self._loadable.items():
            folder = PurePosixPath(conftest).parent
            if has_hooks or any(_is_below(file, folder) for file in files):
                yield conftest

    @cached_property
    def _loadable(self) -> dict[str, bool]:
        """The files ``conftest.py`` that the run may load, and whether there is a hook in them, or was one."""
        arguments = (argument.partition("::")[0] for argument in self.config.args)
        folders = [within(self._top, Path(self.config.invocation_params.dir) / path) for path in arguments]
        found: dict[str, bool] = {}
        for file in (*self.changes.files, *self.changes.ignored):
            path = PurePosixPath(file)
            if path.name == _CONFTEST and any(
                folder is not None and (_is_below(folder, path.parent) or _is_below(file, folder)) for folder in folders
            ):
                found[file] = file in self.changes.python or _has_hooks(self._top / file)
        return found

    def _roots(self) -> set[str]:
        """Where absolute names are looked up: ``sys.path``, and what pytest puts there for a file that it imports."""
        config = self.config
        folders = [config.rootpath, config.rootpath / "src", Path(config.invocation_params.dir)]
        folders += [Path(path or ".") for path in sys.path]
        roots = {inside for folder in folders if (inside := within(self._top, folder)) is not None}
        patterns = (_CONFTEST, *config.getini("evalcheck_files"))
        for file in self.changes.files:
            if any(PurePosixPath(file).match(pattern) for pattern in patterns):
                folder = PurePosixPath(file).parent
                roots.add(plain(folder))
                while plain(folder) and str(folder / "__init__.py") in self._known:
                    folder = folder.parent
                roots.add(plain(folder))
        return roots


@dataclass
class _Lookup:
    """How imports are followed, as long as ``sys.path`` and the plugins are the same."""

    key: tuple[Any, ...]
    imports: Imports
    shared: tuple[str, ...] = ()
    """What every cell depends on: plugins, what other distributions register, and what settings name."""
    why: dict[tuple[str, ...], str] = field(default_factory=dict)
    _of_checks: dict[tuple[str, str, str], tuple[str, ...]] = field(default_factory=dict)

    def of_check(self, kind: str, check: Check) -> tuple[str, ...]:
        """The files of a check and of a kind, with its adapters."""
        module = check.function.__module__
        key = (kind, check.code, module)
        if key not in self._of_checks:
            self._of_checks[key] = tuple(self.of_modules({module, *modules_of(kind)}))
        return self._of_checks[key]

    def of_modules(self, names: Iterable[str]) -> Iterator[str]:
        """The files of modules, whether they are loaded or not."""
        for name in sorted(names):
            if name in sys.modules:
                yield from modules_in(self.imports.top, {name: sys.modules[name]})
            else:
                yield from self.imports.named(name)


def changed_since(config: pytest.Config) -> ChangedSince | None:
    """What ``--evalcheck-since`` asks for; a worker of xdist is told by its controller.

    Raises:
        pytest.UsageError: when it cannot be said what changed.
    """
    given = config.getoption("evalcheck_since")
    revision = str(config.getini("evalcheck_since") if given is None else given).strip()
    if not revision or config.getoption("evalcheck_fresh"):
        return None
    if hasattr(config, "workerinput"):
        return ChangedSince(Changes.from_json(config.workerinput[_SINCE]), config)
    paths = [spec.partition("=")[2] for spec in config.getoption("evalcheck_report")]
    paths += filter(None, [getattr(config.option, "xmlpath", None), config.getoption("evalcheck_resume")])
    outputs = [Path(config.invocation_params.dir, path).expanduser() for path in paths]
    try:
        changes = Changes.since_revision(config.rootpath, revision, config.getini("evalcheck_irrelevant"), outputs)
    except UsageError as error:
        raise pytest.UsageError(f"{error}; --evalcheck-fresh runs everything") from error
    return ChangedSince(changes, config)


def tell_worker(node: Any, asked: ChangedSince | None) -> None:
    """Give a worker of xdist what changed, so that all of them leave out the same."""
    if asked is not None:
        node.workerinput[_SINCE] = json.dumps(vars(asked.changes))  # names of files may be no UTF-8


def _has_hooks(path: Path) -> bool:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return re.search(r"\bpytest_(?!evalcheck\b)|\bimport\s*\(?\s*\*|\bglobals\b|\bsetattr\b", text) is not None


def _is_below(path: str | PurePosixPath, folder: str | PurePosixPath) -> bool:
    return str(folder) in ("", ".") or PurePosixPath(path).is_relative_to(folder)


def _last_line(text: str) -> str:
    return next(iter(reversed(text.strip().splitlines())), "git ended without a message").removeprefix("fatal: ")
