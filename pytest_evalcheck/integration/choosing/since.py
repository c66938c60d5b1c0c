"""``--evalcheck-since REV``: run only checks affected by changes since a git revision.

A check is skipped only where every file that it reaches is known to be untouched. Whatever cannot be followed runs.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.machinery import PathFinder
from importlib.util import find_spec
from itertools import accumulate, takewhile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from pytest_evalcheck.adapters.lookup import modules_of
from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.integration.choosing.changed_files import ChangedFiles, relative_to
from pytest_evalcheck.kinds.common.check import Check
from pytest_evalcheck.reports.results import plural
from pytest_evalcheck.targets.target import Target

UNCHANGED = "unchanged"
"""The reason in `RunFacts.left_out` that is no marker."""

_SINCE = "evalcheck_since"
_OURS = "pytest_evalcheck"
_CONFTEST = "conftest.py"
_DYNAMIC = re.compile(
    r"\b(?:import_module|__import__|importorskip|resolve_name|pydoc\.locate|iter_modules|walk_packages|lazy_loader"
    r"|LazyLoader|LightningCLI|hydra|jsonargparse|stevedore|builtins|__builtins__|imp|runpy|zipimport|exec_module"
    r"|spec_from_file_location|spec_from_loader|module_from_spec|load_module|SourceFileLoader|FileFinder|extend_path"
    r"|__path__|addsitedir|meta_path|path_hooks|sys\.path|sys import path|syspath_prepend|subprocess|Popen"
    r"|os\.system|os\.popen)\b|(?<![\w.])(?:exec|eval|compile)\("
)
"""Names whose use says nothing about what is imported or executed."""
_PATH = re.compile(r"[\w./:\\ -]{1,200}")
_OUTSIDE = re.compile(r"(~|\.\.)/|/\w+/|[A-Za-z]:\\")
_IN_SETTINGS = re.compile(r"[\w./-]+\.py\b|[^\W\d]\w*(?:[.:][^\W\d]\w*)+")
_HOOKS = re.compile(r"\bpytest_(?!evalcheck\b)|\bimport\s*\(?\s*\*|\bglobals\b|\bsetattr\b")
_MOST_BYTES = 1_000_000
"""Largest size of a file of settings; a larger one holds data."""


@dataclass(frozen=True)
class _Source:
    """Facts about one Python file."""

    imports: frozenset[str] = frozenset()
    """Absolute dotted names."""
    relative: bool = False
    strings: frozenset[str] = frozenset()
    doubt: str = ""
    """The reason why the file may import or execute anything."""

    @classmethod
    def read(cls, path: Path) -> _Source:
        try:
            tree = ast.parse(path.read_bytes(), filename=str(path))
        except (OSError, SyntaxError, ValueError, RecursionError) as error:
            return cls(doubt=f"it cannot be parsed ({type(error).__name__})")
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                node.value = ast.Constant("")  # prose
        nodes = list(ast.walk(tree))
        strings = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        for text in (text for text in strings if "import " in text):
            with suppress(SyntaxError, ValueError, RecursionError):
                nodes += ast.walk(ast.parse(text))  # the source of a script
        named = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        imports = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        imports |= {f"{node.module}.{alias.name}" for node in named if not node.level for alias in node.names}
        dynamic = _DYNAMIC.search(ast.unparse(tree))
        return cls(
            frozenset(imports),
            any(node.level for node in named),
            frozenset(strings),
            f"it uses {dynamic[0].removesuffix('(')}" if dynamic else "",
        )


@dataclass
class ImportedFiles:
    """Files of a repository by what imports or names them. Paths are relative to its top, with slashes."""

    top: Path
    files: frozenset[str]
    """Every Python file that git knows."""
    ignored: frozenset[str]
    """Files and folders that git ignores."""
    roots: tuple[str, ...]
    """The folders in which absolute names are looked up."""
    _packages: set[str] = field(default_factory=set)
    _graphs: dict[frozenset[str], Any] = field(default_factory=dict)
    _places: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    _sources: dict[str, _Source] = field(default_factory=dict)
    _direct: dict[str, tuple[set[str], str]] = field(default_factory=dict)

    def reach(self, starts: Iterable[str]) -> tuple[set[str], dict[str, str]]:
        """Follow imports and names in strings from some files.

        Returns the files, and by file why it may lead to others.

        Raises:
            UsageError: when the imports of a package cannot be read.
        """
        first, before = list(starts), len(self._packages)
        todo = first[:]
        seen: set[str] = set()
        doubts: dict[str, str] = {}
        while todo:
            file = todo.pop()
            if file in seen or file.startswith(self._ours):
                continue
            seen.add(file)
            if file not in self._direct:
                self._direct[file] = self._read(file)
            files, doubt = self._direct[file]
            todo += files
            doubts.update({file: doubt} if doubt else {})
        if len(self._packages) == before:
            return seen, doubts
        # A package that was met for the first time was not in the graph that was asked.
        self._direct.clear()
        return self.reach(first)

    def _read(self, file: str) -> tuple[set[str], str]:
        """Return the files that a file leads to, and why there may be others."""
        if file not in self._sources:
            self._sources[file] = _Source.read(self.top / file)
        source = self._sources[file]
        names, doubt = self._imports(file, source)
        found: set[str] = set()
        for name in names:
            located = self.located(name)
            found.update(located or ())
            if located is None:
                doubt = doubt or f"it imports {name}, which is outside of the repository"
        for text in source.strings:
            found.update(self.named(text, file))
            doubt = doubt or self._unseen(text)
        return found, source.doubt or doubt

    @cached_property
    def _ours(self) -> str:
        """The folder of this package in the repository: its modules are named in tables, and are not followed."""
        inside = relative_to(self.top, Path(sys.modules[_OURS].__file__ or "").parent)
        return f"{inside}/" if inside else "/"

    def _imports(self, file: str, source: _Source) -> tuple[Iterable[str], str]:
        """Return the absolute names that a file imports, and why there may be others."""
        graph = self._graph
        for package in self._packages:
            for place in self._places[package] or ():
                if file.startswith(f"{place}/"):
                    name = ".".join((package, *file.removesuffix(".py")[len(place) + 1 :].split("/")))
                    name = name.removesuffix(".__init__")
                    if name in graph.modules:
                        return {name, *graph.find_modules_directly_imported_by(name), *source.imports}, ""
        return source.imports, "it has relative imports, and is in no package" if source.relative else ""

    @property
    def _graph(self) -> Any:
        key = frozenset(self._packages)
        if key not in self._graphs:
            import grimp

            try:
                with self._on_path():
                    made = grimp.build_graph(*sorted(key), cache_dir=None) if key else grimp.ImportGraph()
            except Exception as error:  # of syntax, of encodings, of places
                raise UsageError(f"grimp cannot read {', '.join(sorted(key))}: {error}") from error
            self._graphs[key] = made
        return self._graphs[key]

    @contextmanager
    def _on_path(self) -> Iterator[None]:
        before = sys.path[:]
        sys.path[:0] = [str(self.top / root) for root in self.roots]
        try:
            yield
        finally:
            sys.path[:] = before

    def located(self, name: str) -> list[str] | None:
        """Return the files of an absolute name, packages on the way included; None where it is outside of git."""
        first, *rest = name.split(".")
        if first not in self._places:
            self._places[first] = self._found(first)
            if any((self.top / place).is_dir() for place in self._places[first] or ()):
                self._packages.add(first)
        places = self._places[first]
        if places is None:
            return None
        found: list[str] = []
        for place in places:
            paths = accumulate(rest, lambda path, part: f"{path}/{part}", initial=place.removesuffix(".py"))
            found += [file for path in paths for file in (f"{path}.py", f"{path}/__init__.py")]
        return [file for file in found if (self.top / file).is_file()]

    def _found(self, name: str) -> tuple[str, ...] | None:
        """Return where a top-level name is in the repository: nowhere if it is installed, None if it is elsewhere."""
        if name == _OURS or name in sys.stdlib_module_names:
            return ()
        try:
            with self._on_path():
                spec = find_spec(name)  # of a top-level name: nothing is imported
        except Exception:  # a finder of others
            return None
        if spec is None or spec.origin in ("built-in", "frozen"):
            return ()
        places = [Path(text) for text in (spec.submodule_search_locations or [spec.origin or ""])]
        inside = tuple(inside for place in places if (inside := relative_to(self.top, place)) is not None)
        return inside if inside or all(map(_is_installed, places)) else None

    @cached_property
    def _by_name(self) -> dict[str, list[tuple[tuple[str, ...], str]]]:
        """The files by the last part of what a string calls them (module, package or folder), with all parts."""
        found: dict[str, list[tuple[tuple[str, ...], str]]] = defaultdict(list)
        for file in self.files:
            parts = PurePosixPath(file.removesuffix(".py").removesuffix("/__init__")).parts
            found[parts[-1]].append((parts, file))
            for folder in PurePosixPath(file).parents:
                if folder.name and _text(folder / "__init__.py") not in self.files:
                    found[f"{folder.name}/"].append((folder.parts, file))
        return found

    def named(self, text: str, by: str) -> Iterator[str]:
        """Yield the files that a string in a file may name.

        Two parts of a path or of a dotted name are enough; one is looked up from the folder of the file.
        """
        if not _PATH.fullmatch(text):
            return
        parts = tuple(filter(None, re.split(r"[./:\\\s]+", text.removesuffix(".py"))))
        source = by.endswith(".py")
        near = {PurePosixPath(by).parent.parts, *(PurePosixPath(root).parts for root in self.roots if source)}
        script = source and text.endswith(".py")  # its path may be put together
        for end in range(1, len(parts) + 1):
            for key in (parts[end - 1], *([f"{parts[-1]}/"] if end == len(parts) else [])):
                for whole, file in self._by_name.get(key, ()):
                    pairs = zip(reversed(parts[:end]), reversed(whole), strict=False)
                    alike = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
                    if alike > 1 or script or whole[:-1] in near:
                        yield file

    def _unseen(self, text: str) -> str:
        """Return why a string may name a file whose changes git does not see."""
        if not _PATH.fullmatch(text) or not ("/" in text or "\\" in text or "." in text.strip(".")):
            return ""
        if _OUTSIDE.match(text):
            return f"it names {text!r}, which may be outside of the repository"
        names = {PurePosixPath(path).name for path in self.ignored}
        found = next((part for part in re.split(r"[/\\]", text) if part in names), "")
        return f"it names {found!r}, which git ignores" if found else ""


@dataclass
class ChangedSince:
    """Decides which checks of a run a change may affect."""

    changes: ChangedFiles
    config: pytest.Config
    run: dict[str, int] = field(default_factory=dict)
    """Numbers of selected cells, by reason."""
    _why: dict[tuple[str, ...], str] = field(default_factory=dict)

    def skips(self, path: Path, target: Target, check: Check, *, cells: int) -> bool:
        """Return whether no change affects a check of a target; else count its cells by the reason."""
        reason = self.reason(path, target, check)
        if reason:
            self.run[reason] = self.run.get(reason, 0) + cells
        return not reason

    def reason(self, path: Path, target: Target, check: Check) -> str:
        """Return why the verdict of a check of a target in a file may have changed; '' where it cannot have."""
        if self.everything:
            return self.everything
        files = [relative_to(self._top, each) for each in dict.fromkeys((path, Path(target.file)))]
        known = [file for file in files if file in self._imports.files]
        if len(known) < len(files):
            return "its file is not in the repository, or git ignores it"
        modules = sorted({check.function.__module__, *modules_of(target.kind)})
        above = {_text(parent / _CONFTEST) for file in known for parent in PurePosixPath(file).parents}
        fixtures = sorted(above & self._conftests.keys())
        starts = (*known, *fixtures, *(file for name in modules for file in self._files_of_module(name)))
        if starts not in self._why:
            self._why[starts] = self._reason(starts)
        return self._why[starts]

    def clause(self, skipped: Mapping[str, int], *, whole: bool) -> str:
        """Return the words of the last line for the skipped checks, by target; ``whole`` where there are no others."""
        count, since = sum(skipped.values()), self.changes.revision
        if not count:
            return ""
        if not whole:
            return f"{count} not selected (unchanged since {since})"
        if self.changes.python or self.changes.others:
            return f"no change since {since} affects a check, {plural(count, 'check')} not selected"
        return f"nothing changed since {since}, {plural(count, 'check')} not selected"

    def _reason(self, starts: tuple[str, ...]) -> str:
        try:
            reached, doubts = self._imports.reach((*starts, *self._shared))
        except UsageError as error:
            return str(error)
        if found := sorted(reached & self.changes.python.keys()):
            return f"{found[0]} changed since {self.changes.revision}"
        if found := sorted(reached - self._imports.files):
            return f"git ignores {found[0]}, so that nobody sees whether it changed"
        return next((f"{file} may import anything: {why}" for file, why in sorted(doubts.items())), "")

    @cached_property
    def everything(self) -> str:
        """The reason why every check runs; empty where it does not."""
        since, changed = self.changes.revision, self.changes.python
        if self.changes.others:
            more = len(self.changes.others) - 1
            beside = f" and {plural(more, 'other file')} which no import shows" if more else ""
            name = self.changes.others[0].rstrip("/")
            return f"{name}{beside} changed since {since} (evalcheck_irrelevant names what cannot matter)"
        for path, how in changed.items():
            if how == "D":
                return f"{path} was deleted since {since}"
            if how != "M" and self._hides_another(path):
                return f"{path} was added since {since}, and hides another module of this name"
            if (self._top / path).resolve().is_relative_to(Path(sys.modules[_OURS].__file__ or "").resolve().parent):
                return f"{path} of {_OURS} itself changed since {since}"
        return ""

    def _hides_another(self, path: str) -> bool:
        parts = PurePosixPath(path.removesuffix("/__init__.py").removesuffix(".py"))
        outside = [each for each in sys.path if each and relative_to(self._top, Path(each)) is None]
        if _text(parts.parent) not in self._imports.roots:
            return False
        return parts.name in sys.stdlib_module_names or PathFinder.find_spec(parts.name, outside) is not None

    @property
    def _top(self) -> Path:
        return Path(self.changes.top)

    @cached_property
    def _imports(self) -> ImportedFiles:
        importlib.invalidate_caches()
        files, ignored = frozenset(self.changes.files), frozenset(self.changes.ignored)
        return ImportedFiles(self._top, files, ignored, tuple(sorted(self._roots())))

    @cached_property
    def _shared(self) -> frozenset[str]:
        """The files that every check depends on: of plugins, of conftests with hooks, and what settings name."""
        found = {file for file, has_hooks in self._conftests.items() if has_hooks}
        for plugin in self.config.pluginmanager.get_plugins():
            for name in (type(plugin).__module__, getattr(plugin, "__name__", None)):
                files = self._files_of_module(name) if isinstance(name, str) and name else []
                found.update(file for file in files if PurePosixPath(file).name != _CONFTEST)
        for name in self.changes.settings:
            path = self._top / name
            if path.is_file() and path.stat().st_size <= _MOST_BYTES:
                for word in set(_IN_SETTINGS.findall(path.read_text(encoding="utf-8", errors="replace"))):
                    found.update(self._imports.named(word, name))
        return frozenset(found)

    @cached_property
    def _conftests(self) -> dict[str, bool]:
        """The files ``conftest.py`` that the run may load, and whether there is a hook in them, or was one.

        Hooks see every item; fixtures are for the folder of their file alone.
        """
        paths = (Path(self.config.invocation_params.dir, text.partition("::")[0]) for text in self.config.args)
        folders = [PurePosixPath(inside) for path in paths if (inside := relative_to(self._top, path)) is not None]
        found: dict[str, bool] = {}
        for file in map(PurePosixPath, self.changes.files):
            near = any(each.is_relative_to(file.parent) or file.is_relative_to(each) for each in folders)
            if file.name == _CONFTEST and near:
                path = self._top / file
                text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
                found[str(file)] = str(file) in self.changes.python or bool(_HOOKS.search(text))
        return found

    def _files_of_module(self, name: str) -> list[str]:
        """Return the files of a module, whether it is loaded or not."""
        if name.partition(".")[0] == _OURS:
            return []
        file = getattr(sys.modules.get(name), "__file__", None)
        inside = relative_to(self._top, Path(file)) if file else None
        return [inside] if inside is not None else (self._imports.located(name) or [])

    def _roots(self) -> set[str]:
        """Return where absolute names are looked up: ``sys.path``, and what pytest puts there for files it imports."""
        config = self.config
        folders = [config.rootpath, config.rootpath / "src", Path(config.invocation_params.dir)]
        folders += [Path(path or ".") for path in sys.path]
        roots = {inside for folder in folders if (inside := relative_to(self._top, folder)) is not None}
        for file in map(PurePosixPath, self.changes.files):
            if any(file.match(pattern) for pattern in (_CONFTEST, *config.getini("evalcheck_files"))):
                folder = file.parent
                roots.add(_text(folder))
                while folder.name and _text(folder / "__init__.py") in self.changes.files:
                    folder = folder.parent
                roots.add(_text(folder))
        return roots


def _is_installed(place: Path) -> bool:
    """Return whether a place belongs to an installation, whose versions are not in git."""
    parts = {"site-packages", "dist-packages"} & set(place.parts)
    prefixes = {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)}
    return bool(parts) or any(place.resolve().is_relative_to(prefix) for prefix in prefixes if len(prefix.parts) > 2)


def _text(path: PurePosixPath) -> str:
    return "" if str(path) == "." else str(path)


def changed_since(config: pytest.Config) -> ChangedSince | None:
    """Return what ``--evalcheck-since`` asks for; a worker of xdist has it from its controller.

    Raises:
        pytest.UsageError: when nothing can be compared.
    """
    given = config.getoption("evalcheck_since")
    revision = str(config.getini("evalcheck_since") if given is None else given).strip()
    if not revision:
        return None
    if find_spec("grimp") is None:
        raise pytest.UsageError(
            "--evalcheck-since needs grimp, which reads imports: pip install 'pytest-evalcheck[since]'"
        )
    if hasattr(config, "workerinput"):
        return ChangedSince(ChangedFiles.from_json(config.workerinput[_SINCE]), config)
    paths = [spec.partition("=")[2] for spec in config.getoption("evalcheck_report")]
    paths += filter(None, [getattr(config.option, "xmlpath", None), config.getoption("evalcheck_resume")])
    outputs = [Path(config.invocation_params.dir, path).expanduser() for path in paths]
    try:
        changes = ChangedFiles.read(config.rootpath, revision, config.getini("evalcheck_irrelevant"), outputs)
    except UsageError as error:
        raise pytest.UsageError(f"{error}; --evalcheck-since= runs everything") from error
    return ChangedSince(changes, config)


def tell_worker(node: Any, asked: ChangedSince | None) -> None:
    """Give a worker of xdist what changed, so that all of them skip the same checks."""
    if asked is not None:
        node.workerinput[_SINCE] = asked.changes.as_json()
