"""What is near a choice that matches no cell, and the files of targets that a run does not reach."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_evalcheck.engine.selection import Selection
from pytest_evalcheck.errors import nearest
from pytest_evalcheck.kinds.common.calling import relative
from pytest_evalcheck.kinds.registry import shipped
from pytest_evalcheck.reports.results import plural

if TYPE_CHECKING:
    from pytest_evalcheck.integration.choosing.run_facts import Facts
    from pytest_evalcheck.integration.options import Options

_MOST_FILES = 3
_MOST_ENTRIES = 50_000
"""Of a project's folders: what is beyond is not looked at."""
_OPERATORS = ("and", "or", "not")
_LEAST_WORD = 4


def by_names(config: pytest.Config) -> dict[str, str]:
    """Write codes of checks in node ids as their names, in place: ``file::target::EC201`` is a node, too.

    Returns what was written, by what it has become.
    """
    names = {check.code: check.name for check in shipped()}
    written = {}
    for index, argument in enumerate(config.args):
        *before, last = argument.split("::")
        word, bracket, device = last.partition("[")
        if len(before) == 2 and word.upper() in names:
            config.args[index] = "::".join([*before, f"{names[word.upper()]}{bracket}{device}"])
            written[config.args[index]] = argument
    return written


@dataclass(frozen=True)
class _Names:
    """The names that a choice may match."""

    kinds: Mapping[str, str]
    """By node id of the targets: their kinds."""
    checks: Mapping[str, str]
    """By code: the names of the checks of these kinds."""

    @property
    def words(self) -> list[str]:
        """Codes, names of targets, and the longer words of the names of checks."""
        parts = {word for name in self.checks.values() for word in name.split("_") if len(word) >= _LEAST_WORD}
        return [*self.checks, *(target.rpartition("::")[2] for target in self.kinds), *sorted(parts)]

    def match(self, word: str) -> bool:
        """Whether ``-k`` finds the word in the id of a cell."""
        names = (*self.kinds, *self.checks, *self.checks.values(), *("[cpu]", "[cuda]", "[mps]", "sim:"))
        return any(word.lower() in name.lower() for name in names)


def lines(config: pytest.Config, options: Options, facts: Facts) -> Iterator[str]:
    """Why a run that collected no cell may have found none: a line for each choice that matches nothing."""
    of_kinds = {c.code: c.name for c in shipped() if not set(c.kinds).isdisjoint(facts.found.values())}
    names = _Names(facts.found, {**of_kinds, **facts.own_checks})
    for argument in config.args:
        yield from _of_argument(config, argument, names, options.files)
    if facts.found:
        yield from _of_keywords(str(config.option.keyword or ""), names)
        yield from _of_markers(str(config.option.markexpr or ""), config)
        yield from _of_codes(options, names)


def _of_argument(config: pytest.Config, argument: str, names: _Names, patterns: Sequence[str]) -> Iterator[str]:
    given, *rest = argument.split("::")
    path = (Path(config.invocation_params.dir) / given).resolve()
    if not path.exists():
        beside = sorted(entry.name for entry in path.parent.iterdir()) if path.parent.is_dir() else []
        found = [relative(str(file)) for file in target_files(config, patterns) if file.name == path.name]
        near = f"; there is {found[0]}" if found else nearest(path.name, beside)
        yield f"there is no file or folder {given}{near}"
        return
    targets = {
        target.partition("::")[2]: kind
        for target, kind in names.kinds.items()
        if (config.rootpath / target.partition("::")[0]).resolve() == path
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
        near = begins or nearest(check, [*checks, *checks.values()])
        yield f"{given}::{name} has no check {check!r}{near}"
    elif device:
        yield f"{given}::{name}::{check} does not run on {device.rstrip(']')!r} here; --evalcheck-device names devices"


def _of_keywords(expression: str, names: _Names) -> Iterator[str]:
    unmatched = [word for word in _words(expression, r"[^\s()]+") if not names.match(word)]
    for word in unmatched:
        yield f"-k {expression!r}: no id has {word!r} in it, and no check has this code{_near(word, names.words)}"
    if expression and not unmatched:
        yield f"-k {expression!r} matches none of the checks of {plural(len(names.kinds), 'target')}"


def _of_markers(expression: str, config: pytest.Config) -> Iterator[str]:
    known = sorted({re.split(r"[:(]", line, maxsplit=1)[0].strip() for line in config.getini("markers")})
    unknown = [word for word in _words(expression, r"\w+") if word not in known]
    for word in unknown:
        yield f"-m {expression!r}: no marker is called {word!r}{_near(word, known)}"
    if expression and not unknown:
        yield f"-m {expression!r} matches none of the checks here"


def _of_codes(options: Options, names: _Names) -> Iterator[str]:
    here = sorted(set(names.kinds.values()))
    for word in Selection.of(options.take, "").take:
        chosen = Selection((word,))
        found = [check for check in shipped() if chosen.takes(check)]
        if any(code.startswith(word.upper()) or name.startswith(word) for code, name in names.checks.items()):
            continue
        if found:
            kinds = ", ".join(sorted({kind for check in found for kind in check.kinds}))
            count = plural(len(names.kinds), "target")
            yield f"{word} is about targets of the kind {kinds}; here are {count} of the kind {', '.join(here)}"
        else:
            known = [*names.checks, *names.checks.values()]
            yield f"{word!r} is the beginning of no check's code or name{_near(word, known)}"


def _words(expression: str, pattern: str) -> Iterator[str]:
    """The words of an expression that must match; what ``not`` takes out need not."""
    found = re.findall(pattern, expression)
    for before, word in pairwise(["", *found]):
        if word not in _OPERATORS and before != "not":
            yield word


def _near(word: str, words: Iterable[str]) -> str:
    known = list(words)
    return nearest(word, known) or nearest(word.upper(), known)


# Files of targets outside of what pytest was given, or of its testpaths.


def elsewhere(config: pytest.Config, patterns: Sequence[str], *, found: bool) -> Iterator[str]:
    """A line about the files of targets that the run does not reach.

    With ``testpaths`` always, since nobody named them on the command line; else where none was ``found``.
    """
    source = config.args_source
    of_ini = source is pytest.Config.ArgsSource.TESTPATHS
    if found and not of_ini:
        return
    given = [(Path(config.invocation_params.dir) / argument.partition("::")[0]).resolve() for argument in config.args]
    files = [
        relative(str(file))
        for file in target_files(config, patterns)
        if not any(path == file or path in file.parents for path in given)
    ]
    if files:
        more = f" and {len(files) - _MOST_FILES} more" if files[_MOST_FILES:] else ""
        names = ", ".join(files[:_MOST_FILES]) + more
        folders = list(dict.fromkeys(Path(file).parent.as_posix() for file in files))
        command = f"pytest --evalcheck {' '.join(folders[:_MOST_FILES])}"
        where = f"testpaths = {' '.join(config.getini('testpaths'))}" if of_ini else "what pytest was given"
        more = ", or add the folder to testpaths" if of_ini else ""
        yield f"left out: {names}: outside of {where}; {command} runs {'it' if len(files) == 1 else 'them'}{more}"


def target_files(config: pytest.Config, patterns: Sequence[str]) -> list[Path]:
    """The files below the root whose names match a pattern; folders that pytest passes over are left out."""
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
