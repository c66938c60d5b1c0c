"""What a Python file may import, read from its source: nothing is imported, and too much is better than too little."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

import pytest_evalcheck

_LOADERS = frozenset(
    {
        *("spec_from_file_location", "spec_from_loader", "module_from_spec", "exec_module", "load_module"),
        *("SourceFileLoader", "SourcelessFileLoader", "ExtensionFileLoader", "FileFinder", "zipimporter"),
        *("walk_packages", "iter_modules", "extend_path", "addsitedir", "run_module", "run_path"),
        *("meta_path", "path_hooks", "syspath_prepend", "attach_stub", "LazyLoader", "LightningCLI"),
    }
)
"""Names whose use says nothing about what is loaded."""
_LIBRARIES = frozenset({"hydra", "imp", "jsonargparse", "runpy", "stevedore", "zipimport"})
"""Modules that load what data names."""
_IMPORTERS = frozenset({"import_module", "__import__", "importorskip"})
_BUILT_IN = frozenset({"exec", "eval"})
_DOTTED = re.compile(r"(?!.*\.py$)\.*[^\W\d]\w*(\.[^\W\d]\w*)*(:[\w.]+)?")
_PATH = re.compile(r"[\w./ -]{1,200}")
_NAME = re.compile(r"[^\W\d]\w*(?:[.:](?!py\b)[^\W\d]\w*)+")
_FILE = re.compile(r"[\w./-]+\.py\b")
_MOST_BYTES = 1_000_000
"""Of a file of settings; what is larger holds data."""
_IMPORT = re.compile(r"(?:\bfrom\s+([\w.]+)\s+)?\bimport\s+\(?([\w., \t]+)")
_MUTATORS = frozenset({"append", "extend", "insert", "remove", "pop", "clear"})


@dataclass(frozen=True)
class Source:
    """What one file says about what it imports."""

    imports: frozenset[tuple[int, str]]
    """Dotted names, each with the number of dots before it; a name that ends in ``*`` is all of a package."""
    patterns: frozenset[tuple[int, str]]
    """The same for names that are known in part, as regular expressions."""
    strings: frozenset[str]
    """Strings that may be the name of a module, or a path."""
    unknown: str
    """Why it cannot be said what else it imports; empty where it can."""
    unknown_paths: str
    """Why it cannot be said where it imports from, until the file has been imported; empty where it can."""

    @classmethod
    def read(cls, path: Path) -> Source:
        """The imports of a file, wherever they are in it."""
        try:
            tree = ast.parse(path.read_bytes(), filename=str(path))
        except (OSError, SyntaxError, ValueError, RecursionError) as error:
            return cls(frozenset(), frozenset(), frozenset(), f"it cannot be parsed ({type(error).__name__})", "")
        reader = _Reader()
        reader.visit(tree)
        return cls(
            frozenset(reader.imports),
            frozenset(reader.patterns),
            frozenset(reader.strings),
            reader.unknown,
            reader.unknown_paths,
        )


class _Reader(ast.NodeVisitor):
    def __init__(self) -> None:
        self.imports: set[tuple[int, str]] = set()
        self.patterns: set[tuple[int, str]] = set()
        self.strings: set[str] = set()
        self.unknown = self.unknown_paths = ""
        self._depth = 0
        self._literal: set[str] = set()
        """Names that a loop over strings binds, whose strings are among `strings`."""

    def _give_up(self, node: ast.AST, what: str) -> None:
        self.unknown = self.unknown or f"it uses {what} in line {getattr(node, 'lineno', 1)}"

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._imported(node, 0, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._imported(node, node.level, ".".join(filter(None, [node.module, alias.name])))
            renamed = alias.asname and alias.name in (*_IMPORTERS, *_BUILT_IN)
            if renamed or alias.name in _LOADERS or (node.module, alias.name) == ("sys", "path"):
                self._give_up(node, alias.name)

    def _imported(self, node: ast.AST, level: int, name: str) -> None:
        self.imports.add((level, name))
        if not level and name.partition(".")[0] in _LIBRARIES:
            self._give_up(node, name.partition(".")[0])

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        before = self._literal
        self._depth += 1
        self._literal = before | _bound_by_loops(node)
        self.generic_visit(node)
        self._literal = before
        self._depth -= 1

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef  # noqa: N815

    def visit_Module(self, node: ast.Module) -> None:
        self._literal = _bound_by_loops(node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = _last(node.func)
        if name in _IMPORTERS and node.args:
            self._import_call(node, name)
            if isinstance(node.func, ast.Attribute):
                self.visit(node.func.value)
            for part in (*node.args, *node.keywords):
                self.visit(part)
            return
        if name == "getattr" and len(node.args) > 1 and _text(node.args[1]) in (*_IMPORTERS, *_LOADERS, *_BUILT_IN):
            self._give_up(node, str(_text(node.args[1])))
        self.generic_visit(node)

    def _import_call(self, node: ast.Call, name: str) -> None:
        first, rest = node.args[0], [*node.args[1:], *(keyword.value for keyword in node.keywords)]
        text = _text(first)
        if text is not None and name != "__import__":
            bare = text.lstrip(".")
            self.imports.add((len(text) - len(bare), bare))
            anchor = next(iter(rest), None)
            if text != bare and _text(anchor) is not None:
                # More dots only lead further up: the whole package is taken.
                self.patterns.add((0, re.escape(str(_text(anchor)).partition(".")[0]) + r"(\..*)?"))
            elif text != bare and not (isinstance(anchor, ast.Name) and anchor.id in ("__name__", "__package__")):
                self._give_up(node, f"{name} relative to a package that is computed")
        elif text is not None:
            self.imports.add((0, f"{text}.*"))  # it may be given names, which may be those of modules
            if len(rest) > 3:
                self._give_up(node, f"{name} with a level")
        elif isinstance(first, ast.JoinedStr) and (pattern := _pattern(first)) is not None:
            self.patterns.add(pattern)
        elif not (isinstance(first, ast.Name) and first.id in self._literal):
            self._give_up(node, f"{name} with a name that is computed")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        of = _last(node.value)
        if node.attr in _LOADERS | _IMPORTERS or (of in ("builtins", "__builtins__") and node.attr in _BUILT_IN):
            self._give_up(node, node.attr)
        if (of, node.attr) in {("pkgutil", "resolve_name"), ("pydoc", "locate")}:
            self._give_up(node, f"{of}.{node.attr}")
        if node.attr == "path" and of == "sys" and isinstance(node.ctx, (ast.Store, ast.Del)):
            self._changes_paths(node)
        if node.attr in _MUTATORS and isinstance(node.value, ast.Attribute):
            inner = node.value
            if inner.attr == "path" and _last(inner.value) == "sys":
                self._changes_paths(node)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        value = node.value
        stored = isinstance(node.ctx, (ast.Store, ast.Del))
        if stored and isinstance(value, ast.Attribute) and value.attr == "path" and _last(value.value) == "sys":
            self._changes_paths(node)
        self.generic_visit(node)

    def _changes_paths(self, node: ast.AST) -> None:
        why = f"it changes sys.path in line {getattr(node, 'lineno', 1)}"
        if self._depth:
            self.unknown = self.unknown or why
        else:
            self.unknown_paths = self.unknown_paths or why

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in _BUILT_IN | _IMPORTERS | _LOADERS and isinstance(node.ctx, ast.Load):
            self._give_up(node, node.id)
        if node.id == "__path__" and isinstance(node.ctx, ast.Store):
            self._give_up(node, "a __path__ of its own")

    def visit_Constant(self, node: ast.Constant) -> None:
        text = node.value
        if not isinstance(text, str):
            return
        if _DOTTED.fullmatch(text) or _PATH.fullmatch(text):
            self.strings.add(text)
        if "import" in text:  # it may be the source of a script
            for of, names in _IMPORT.findall(text):
                self.strings.update(".".join(filter(None, [of, name])) for name in re.findall(r"[\w.]+", names))

    def visit_Expr(self, node: ast.Expr) -> None:
        if _text(node.value) is None:  # a docstring runs nothing
            self.generic_visit(node)


def _last(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _text(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _pattern(node: ast.JoinedStr) -> tuple[int, str] | None:
    """An f-string as a level and a regular expression; None where nothing is known of how it begins."""
    level = 0
    parts: list[str] = []
    for index, value in enumerate(node.values):
        text = _text(value)
        inner = value.value if isinstance(value, ast.FormattedValue) else None
        if text is None and index == 0:
            if not (isinstance(inner, ast.Name) and inner.id in ("__name__", "__package__")):
                return None
            level = 1  # of a module, its name is a package that does not exist: nothing is lost
        elif text is None:
            parts.append(".*")
        else:
            if index == 0:
                level = len(text) - len(text.lstrip("."))
                text = text.lstrip(".")
                if not level and "." not in text:
                    return None
            elif index == 1 and not parts:
                if not text.startswith("."):
                    return None
                text = text.removeprefix(".")
            parts.append(re.escape(text))
    return (level, "".join(parts)) if parts and parts[0] != ".*" else None


def _bound_by_loops(scope: ast.AST) -> set[str]:
    """Names that nothing but loops over strings binds, in one function or module, and what is in it."""
    literal: set[str] = set()
    others: set[str] = set()
    targets: set[int] = set()
    for node in ast.walk(scope):
        if isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.target, ast.Name):
            values = node.iter.elts if isinstance(node.iter, (ast.Tuple, ast.List, ast.Set)) else []
            if values and all(_text(value) is not None for value in values):
                literal.add(node.target.id)
                targets.add(id(node.target))
        elif isinstance(node, ast.arg):
            others.add(node.arg)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            others.update(node.names)
        elif isinstance(node, ast.alias):
            others.add(node.asname or node.name)
        else:  # functions, classes, errors that are caught, and what a case captures
            others.update(name for kind in ("name", "rest") if isinstance(name := getattr(node, kind, None), str))
    for node in ast.walk(scope):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in targets:
            others.add(node.id)
    return literal - others


@dataclass
class Reached:
    """The files that some files lead to, and what cannot be said about them."""

    files: frozenset[str]
    unknown: dict[str, str]
    """By file: why it cannot be said what else it leads to."""


@dataclass
class Imports:
    """Which files of a folder import which others. Files are paths relative to it, with slashes."""

    top: Path
    files: frozenset[str]
    """Every Python file that is there, or was."""
    roots: tuple[str, ...]
    """The folders from which absolute names are looked up; ``""`` is the top."""
    executed: frozenset[str] = frozenset()
    """Files that have been imported: what they do to ``sys.path`` is done, and the roots have it."""
    sources: dict[str, Source] = field(default_factory=dict)
    """What has been read so far, by file."""
    _direct: dict[str, tuple[frozenset[str], str]] = field(default_factory=dict)
    _located: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _folders: dict[str, list[str]] = field(default_factory=dict)
    _called: dict[str, list[str]] = field(default_factory=dict)
    _firsts: set[str] = field(default_factory=set)
    """What a dotted name that is found here may begin with."""

    def __post_init__(self) -> None:
        for file in self.files:
            self._called.setdefault(PurePosixPath(file).name, []).append(file)
            for parent in PurePosixPath(file).parents:
                self._folders.setdefault(plain(parent), []).append(file)
        self._firsts.update(PurePosixPath(name).name for name in self._folders)
        self._firsts.update(name.removesuffix(".py") for name in self._called)

    def reach(self, starts: Iterable[str]) -> Reached:
        """All files that these files import, themselves included."""
        seen: set[str] = set()
        unknown: dict[str, str] = {}
        todo = list(starts)
        while todo:
            file = todo.pop()
            if file in seen:
                continue
            seen.add(file)
            direct, why = self._imports_of(file)
            if why:
                unknown[file] = why
            todo += direct - seen
        return Reached(frozenset(seen), unknown)

    def named(self, name: str) -> list[str]:
        """The files that an absolute name may be, with the packages on the way."""
        return list(self._from(PurePosixPath(), 0, name))

    def named_in(self, settings: str) -> set[str]:
        """The files of modules that a file of settings names: ``pkg.module``, ``module:function``, ``a/module.py``.

        Who reads it may import them, from where the file is, too.
        """
        here = PurePosixPath(settings).parent
        found: set[str] = set()
        for name in _names_in(self.top / settings):
            if name.endswith(".py"):
                found.update({_normal(here, name), _normal(PurePosixPath(), name)} & self.files)
                continue
            first = name.partition(".")[0]
            if first in self._firsts:
                found.update(self._from(here, 0, name))
                found.update(self._below(here, tuple(name.split("."))))
        return found

    def _imports_of(self, file: str) -> tuple[frozenset[str], str]:
        if file not in self._direct:
            self._direct[file] = self._read(file)
        return self._direct[file]

    def _read(self, file: str) -> tuple[frozenset[str], str]:
        here = PurePosixPath(file).parent
        found = {name for each in (here, *here.parents) if (name := _join(each, "__init__.py")) in self.files}
        path = self.top / file
        if not path.exists():  # it was deleted, which is a change of it
            return frozenset(found), ""
        if file not in self.sources:
            self.sources[file] = Source.read(path)
        source = self.sources[file]
        ours = path.resolve().is_relative_to(_OURS)
        if ours:
            # What our own modules load is named in one of them, or by the caller: no name has to be guessed, and no
            # string of them is a module of somebody else. The registry names every kind, check and adapter; a cell
            # names those that it uses.
            names = () if path.resolve() == _REGISTRY else source.strings
            meant = {each for text in names if _DOTTED.fullmatch(text) for each in self._meant(here, text)}
            found.update(each for each in meant if (self.top / each).resolve().is_relative_to(_OURS))
            source = Source(source.imports, frozenset(), frozenset(), "", "")
        for level, name in source.imports:
            found.update(self._from(here, level, name))
        for level, pattern in source.patterns:
            found.update(self._matching(here, level, pattern))
        for text in source.strings:
            found.update(self._meant(here, text))
        unknown = source.unknown or ("" if file in self.executed else source.unknown_paths)
        return frozenset(found), unknown

    def _from(self, here: PurePosixPath, level: int, name: str) -> Iterator[str]:
        parts = tuple(filter(None, name.split(".")))
        if level:
            yield from self._below(_up(here, level), parts)
            return
        for root in self.roots:
            yield from self._below(PurePosixPath(root), parts)
        for located in self._where(parts[0]) if parts else ():
            if located in self.files:
                yield located
            else:
                yield from self._below(PurePosixPath(located), parts[1:])

    def _below(self, folder: PurePosixPath, parts: tuple[str, ...]) -> Iterator[str]:
        """The files on the way from a folder to a module of it."""
        if (name := _join(folder, "__init__.py")) in self.files:
            yield name
        for part in parts:
            if part == "*":
                yield from (f for f in self._folders.get(plain(folder), ()) if _is_module_of(folder, f))
                return
            if (name := _join(folder, f"{part}.py")) in self.files:
                yield name
            folder = folder / part
            if plain(folder) not in self._folders:
                return
            if (name := _join(folder, "__init__.py")) in self.files:
                yield name

    def _where(self, name: str) -> tuple[str, ...]:
        """Where the import system finds a top-level name in the folder, such as by an editable installation."""
        if name not in self._located:
            self._located[name] = () if name in sys.stdlib_module_names else tuple(self._find(name))
        return self._located[name]

    def _find(self, name: str) -> Iterator[str]:
        try:
            spec = find_spec(name)  # of a top-level name: nothing is imported
        except Exception:  # a finder of others
            return
        for text in (*((spec.submodule_search_locations or ()) if spec else ()), (spec and spec.origin) or ""):
            inside = within(self.top, Path(text)) if text else None
            if inside is not None and (inside in self.files or inside in self._folders):
                yield inside

    def _matching(self, here: PurePosixPath, level: int, pattern: str) -> Iterator[str]:
        starts = [_up(here, level)] if level else [PurePosixPath(root) for root in self.roots]
        wanted = re.compile(pattern)
        for start in starts:
            for file in self._folders.get(plain(start), ()):
                name = ".".join(PurePosixPath(file).relative_to(start).with_suffix("").parts)
                if wanted.fullmatch(name) or wanted.fullmatch(name.removesuffix(".__init__")):
                    yield file

    def _meant(self, here: PurePosixPath, text: str) -> Iterator[str]:
        """What a string may name: a module, by its absolute name or from its own package; a file; a folder."""
        if _DOTTED.fullmatch(text):
            name = text.partition(":")[0]
            bare = name.lstrip(".")
            yield from self._from(here, max(len(name) - len(bare), 0), bare)
            if name == bare:
                parts = tuple(bare.split("."))
                first = _join(here, parts[0])
                if first in self._folders or f"{first}.py" in self.files:
                    yield from self._below(here, parts)
        if text.endswith(".py") and "/" not in text:
            yield from self._called.get(text, ())  # a path may be put together from its parts
        elif "/" in text or _join(here, text) in self._folders:
            for start in {here, PurePosixPath(), *map(PurePosixPath, self.roots)}:
                path = _normal(start, text)
                if path in self.files:
                    yield path
                # A word may be anything; what has a slash, or is beside the file and no package, is a folder.
                elif path and ("/" in text.strip("/") or (start == here and f"{path}/__init__.py" not in self.files)):
                    yield from self._folders.get(path, ())


_OURS = Path(pytest_evalcheck.__file__).resolve().parent
_REGISTRY = _OURS / "kinds" / "registry.py"


@cache
def _read_names(path: Path, *_: int) -> frozenset[str]:
    """The dotted names in a file; what follows the path is when it was changed, and its size."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return frozenset((*(name.replace(":", ".") for name in _NAME.findall(text)), *_FILE.findall(text)))


def _names_in(path: Path) -> frozenset[str]:
    try:
        found = path.stat()
        return _read_names(path, found.st_mtime_ns, found.st_size) if found.st_size <= _MOST_BYTES else frozenset()
    except OSError:  # it is not there any more, which is a change
        return frozenset()


def within(top: Path, path: Path) -> str | None:
    """A path relative to a folder, with slashes; None for one outside, and for one of an environment in it."""
    try:
        return _inside(top, path.resolve())
    except OSError:
        return None


def _inside(top: Path, path: Path) -> str | None:
    try:
        inside = path.relative_to(top)
    except ValueError:
        return None
    if {"site-packages", "dist-packages"} & set(inside.parts):
        return None
    return plain(PurePosixPath(inside.as_posix()))


def modules_in(top: Path, modules: Mapping[str, object]) -> Iterator[str]:
    """The files of loaded modules that are in a folder."""
    prefix = os.path.join(top, "")
    for module in list(modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and (path := _resolved(file)).startswith(prefix):
            inside = _inside(top, Path(path))
            if inside is not None:
                yield inside


@cache
def _resolved(file: str) -> str:
    """Once for each of the thousands of modules that a process has loaded, and not once for each that it loads."""
    return os.path.realpath(file)


def plain(path: PurePosixPath) -> str:
    """A relative path as text; empty for the folder that it is relative to."""
    text = str(path)
    return "" if text == "." else text


def _join(folder: PurePosixPath, name: str) -> str:
    return plain(folder / name)


def _up(here: PurePosixPath, level: int) -> PurePosixPath:
    for _ in range(level - 1):
        here = here.parent
    return here


def _is_module_of(folder: PurePosixPath, file: str) -> bool:
    parts = PurePosixPath(file).relative_to(folder).parts
    return len(parts) == 1 or (len(parts) == 2 and parts[1] == "__init__.py")


def _normal(start: PurePosixPath, text: str) -> str:
    """A path below the top, without dots; empty where there is none."""
    parts: list[str] = []
    for part in (*start.parts, *text.split("/")):
        if part == ".." and not parts:
            return ""
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)
