"""The entries of ``history/<library>.toml``: a released fix of an evaluation number, and the checks about it."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:  # comes with pytest
    import tomli as tomllib

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from pytest_evalcheck.errors import nearest
from pytest_evalcheck.kinds.registry import shipped

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent


class EntryError(ValueError):
    """Return the problems of a file of entries, a line each."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One released fix."""

    library: str
    """The name of the distribution."""
    id: str
    before: str
    """The last release with the fault."""
    after: str
    """The first release without it."""
    source: str
    """The address of the changelog or of the pull request."""
    what: str
    """The number that was wrong, in one line."""
    checks: tuple[str, ...]
    """The codes of the checks that are predicted to find it; empty where none covers it."""
    why: str = ""
    """The reason where no property covers it."""
    targets: tuple[str, ...] = ()
    """Targets: ``package.module:Name(...)`` for ``--evalcheck-target``, or ``fixtures/targets/file.py::target``."""
    script: str = ""
    """Below ``history/``: a stand-alone script, which exits with 1 where the fault is, and with 0 elsewhere. Words
    behind it are its arguments."""
    requires: tuple[str, ...] = ()
    """Requirements installed beside both releases."""
    missed: str = ""
    """The reason why a run does not find it, written by hand."""

    @property
    def digest(self) -> str:
        """Return what identifies the part of the entry on which an outcome depends."""
        told = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in ("what", "missed")}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True, kw_only=True)
class Library:
    """The entries of one library."""

    name: str
    entries: tuple[Entry, ...]
    requires: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By a specifier of releases: what else they need beside the README's environment."""

    def needs(self, entry: Entry, release: str) -> tuple[str, ...]:
        """Return what is installed together with this release."""
        common = (
            each for key, each in self.requires.items() if Version(release) in SpecifierSet(key, prereleases=True)
        )
        return tuple(dict.fromkeys([*(need for each in common for need in each), *entry.requires]))


def libraries(folder: Path = FOLDER) -> dict[str, Library]:
    """All libraries that have a file, by name.

    Raises:
        EntryError: where a file cannot be used.
    """
    read = [read_library(path) for path in sorted(folder.glob("*.toml"))]
    return {library.name: library for library in read}


def read_library(path: Path) -> Library:
    """The entries of one file.

    Raises:
        EntryError: with all that is wrong with it.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise EntryError(f"{path.name}: {error}") from error
    problems = [
        f"{path.name}: {name!r} is no key of a file{nearest(name, _OF_A_FILE)}"
        for name in data
        if name not in _OF_A_FILE
    ]
    if not isinstance(data.get("library"), str):
        problems.append(f"{path.name}: `library` is missing: the name of the distribution")
    requires = _requires(path.name, data.get("requires", {}), problems)
    entries: dict[str, Entry] = {}
    for number, raw in enumerate(data.get("entry", []), start=1):
        where = f"{path.name}: entry {raw.get('id') or number}"
        found = _problems(raw, path.parent)
        problems += [f"{where}: {problem}" for problem in found]
        if raw.get("id") in entries:
            problems.append(f"{where}: the id is there twice")
        if not found:
            entries[raw["id"]] = _entry(str(data.get("library")), raw)
    if problems:
        raise EntryError("\n".join(problems))
    return Library(name=data["library"], entries=tuple(entries.values()), requires=requires)


_OF_A_FILE = ("library", "requires", "entry")
_NEEDED = ("id", "before", "after", "source", "what", "checks", "targets")
_TEXTS = ("id", "before", "after", "source", "what", "why", "script", "missed")
_LISTS = ("targets", "requires")
_TARGET = re.compile(r"[\w.]+:\w+(\(.*\))?|(fixtures|history)/targets/evalcheck_\w+\.py::\w+", re.DOTALL)


def _entry(library: str, raw: Mapping[str, Any]) -> Entry:
    values = {name: tuple(value) if name in _LISTS else value for name, value in raw.items()}
    checks = raw["checks"]
    values["checks"] = () if checks == "none" else (checks,) if isinstance(checks, str) else tuple(checks)
    return Entry(library=library, **values)


def _problems(raw: Mapping[str, Any], folder: Path) -> list[str]:
    known = {each.name for each in fields(Entry)} - {"library"}
    found = [f"{name!r} is no key of an entry{nearest(name, known)}" for name in raw if name not in known]
    found += [f"`{name}` is missing" for name in _NEEDED if name not in raw]
    found += [f"`{name}` is {raw[name]!r}; expected text" for name in _TEXTS if not isinstance(raw.get(name, ""), str)]
    for name in _LISTS:
        given = raw.get(name, [])
        if not (isinstance(given, list) and all(isinstance(each, str) for each in given)):
            found.append(f"`{name}` is {given!r}; expected a list of texts")
    return found or _value_problems(raw, folder)


def _value_problems(raw: Mapping[str, Any], folder: Path) -> list[str]:
    found = []
    try:
        if Version(raw["before"]) >= Version(raw["after"]):
            found.append(f"`before` is {raw['before']}, which is not before {raw['after']}")
    except InvalidVersion as error:
        found.append(str(error))
    found += _check_problems(raw)
    forms = "neither package.module:Name(...) nor (fixtures|history)/targets/file.py::name"
    found += [f"the target {each!r} is {forms}" for each in raw["targets"] if not _TARGET.fullmatch(each)]
    if not raw["targets"] and raw["checks"] != "none":
        found.append("`targets` is empty: name what must show it")
    if raw.get("script") and not (folder / raw["script"].split()[0]).is_file():
        found.append(f"the script {raw['script']} is not there")
    if raw.get("missed") and not raw.get("script"):
        found.append("`missed` needs a `script` that shows the fault: what nobody has reproduced is not counted")
    if not raw["source"].startswith("https://"):
        found.append(f"`source` is {raw['source']!r}; expected an address")
    return found + _requirement_problems(raw.get("requires", []))


def _check_problems(raw: Mapping[str, Any]) -> list[str]:
    checks = raw["checks"]
    if checks == "none":
        return [] if raw.get("why") else ['`checks = "none"` needs `why`: the reason that no check covers it']
    codes = sorted({made.code for made in shipped()})
    given = [checks] if isinstance(checks, str) else checks
    if not (isinstance(given, list) and given and all(isinstance(each, str) for each in given)):
        return [f'`checks` is {checks!r}; expected a code, a list of codes, or "none"']
    return [f"no check has the code {each!r}{nearest(each, codes)}" for each in given if each not in codes]


def _requirement_problems(given: list[str]) -> list[str]:
    found = []
    for text in given:
        try:
            Requirement(text)
        except InvalidRequirement as error:
            found.append(f"requires {text!r}: {str(error).splitlines()[0]}")
    return found


def _requires(name: str, given: Any, problems: list[str]) -> dict[str, tuple[str, ...]]:
    if not isinstance(given, dict):
        problems.append(f'{name}: `requires` is {given!r}; expected a table such as {{"<1.6" = ["numpy<2"]}}')
        return {}
    for key, needs in given.items():
        try:
            SpecifierSet(key)
        except InvalidSpecifier:
            problems.append(f"{name}: requires: {key!r} is no specifier of releases")
        if not (isinstance(needs, list) and all(isinstance(need, str) for need in needs)):
            problems.append(f"{name}: requires: {needs!r} is no list of requirements")
        else:
            problems += [f"{name}: requires: {problem}" for problem in _requirement_problems(needs)]
    return {key: tuple(needs) for key, needs in given.items()} if not problems else {}
