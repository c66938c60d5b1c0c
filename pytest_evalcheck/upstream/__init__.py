"""The registry of upstream faults: what released libraries are known to do wrong, as data.

A fault is about objects of some classes, in some versions of a library, and it is known by the signatures of its
failures. A user's object of such a class then shows a known failure instead of one that the user cannot mend. Each JSON
file of this folder holds the faults of one library; docs/upstream.md says how to add one. `add_registry` reads others.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from pytest_evalcheck.errors import UsageError, nearest, require_fields

FOLDER = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault of one library."""

    id: str
    library: str
    """The name of its distribution, such as ``torchmetrics``."""
    versions: str
    """The versions for which the fault was confirmed, as a specifier such as ``==1.9.*``; unverified for others."""
    signatures: tuple[str, ...]
    """Patterns of the signatures of its failures, in which ``*`` stands for any text."""
    reason: str
    """The mistake, in one line."""
    finding: str
    """Its page: a file of docs/findings and a heading in it, such as ``numeric.md#unsigned-integers``."""
    see: str = ""
    """The upstream report, such as ``mosaicml/composer#3196``; empty when none was found."""
    classes: tuple[str, ...] = ()
    """The qualified names of the classes whose objects have the fault, or of functions; subclasses are included. With
    none it is not looked for, and applies only to targets that name its id."""
    owner_of: tuple[str, ...] = ()
    """The methods that the fault is in. An object whose own class overrides one of them may have a fault of its own.
    A function has none: it is the code at fault."""
    mended: str = ""
    """The first release without the fault, such as ``1.10``; empty while there is none."""
    mended_by: str = ""
    """The change that mended it, such as ``Lightning-AI/torchmetrics#3389``; empty where none was found."""

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the checks that its signatures begin with."""
        return tuple(dict.fromkeys(signature.split(":")[0] for signature in self.signatures))

    @property
    def installed(self) -> str:
        """The version of the library; empty where it is not installed."""
        try:
            return importlib.metadata.version(self.library)
        except importlib.metadata.PackageNotFoundError:
            return ""

    @property
    def why_out_of_range(self) -> str:
        """Return a reason if the fault is not recorded for the installed version, as a clause, else ''."""
        from packaging.specifiers import SpecifierSet  # comes with pytest

        installed = self.installed
        if installed and SpecifierSet(self.versions).contains(installed, prereleases=True):
            return ""
        found = f"{self.library} {installed} is installed" if installed else f"{self.library} is not installed"
        mended = f"; {self.mended} has mended it" + f" ({self.mended_by})" * bool(self.mended_by) if self.mended else ""
        return f"the upstream fault {self.id} is recorded for {self.library} {self.versions}, and {found}{mended}"

    @property
    def unverified(self) -> str:
        """``unverified for torchmetrics 1.10.0``, if it is installed, not tried, and may have it; else ''.

        A release that has mended it does not have it, and no later one.
        """
        from packaging.version import Version

        installed = self.installed
        if not (installed and self.why_out_of_range) or (self.mended and Version(installed) >= Version(self.mended)):
            return ""
        return f"unverified for {self.library} {installed}"

    def applies(self, *, strict: bool) -> bool:
        """Return whether the installed version has the fault; with ``strict``, an unverified one has not."""
        return not self.why_out_of_range or (bool(self.unverified) and not strict)

    def shows(self, signature: str) -> bool:
        """Return whether a failure of this signature is one of the fault."""
        return any(_pattern(pattern).fullmatch(signature) for pattern in self.signatures)

    def is_in(self, thing: Any) -> bool:
        """Return whether the code at fault is what this object runs.

        The object is of one of the classes, or holds a module that is; the methods at fault come from the package of
        that class, and so do all modules that it holds: a user's own metric in a collection of the library may have a
        fault of its own. A function is one of those that are named, also with some arguments given (`partial`).
        """
        if (function := _function(thing)) is not None:
            return _qualified(function) in self.classes and _stands_under_its_name(function)
        inside = _modules_inside(thing)
        packages = {type(module).__module__.split(".")[0] for module in inside}
        found = (self._package_of(one) for one in (thing, *inside))
        return any(package and packages <= {package, "torch"} for package in found)

    def _package_of(self, thing: Any) -> str:
        """The package whose code at fault this object itself runs; empty where it runs none."""
        names = _names(thing)
        package = next((name.split(".")[0] for name in self.classes if name in names), "")
        owners = {_owner(type(thing), method) for method in self.owner_of}
        return package if owners <= {"", package} else ""


def match(
    signature: str,
    thing: Any,
    changed: Collection[str] = (),
    mended: Callable[[str], bool] = lambda _: False,
    *,
    strict: bool = False,
) -> Fault | None:
    """The fault that a failure of this object shows, in the version that is installed; None where there is none.

    ``changed`` names methods that the author of the target calls otherwise: what is wrong in them may be the author's.
    ``mended`` says of an id whether a patch has mended that fault. With ``strict``, one that is unverified is none.
    """
    candidates = (fault for fault in _candidates(signature, thing) if not mended(fault.id))
    found = (fault for fault in candidates if fault.applies(strict=strict))
    return next((fault for fault in found if not set(fault.owner_of) & set(changed)), None)


def unnamed(signature: str) -> list[Fault]:
    """The faults of this signature that no class is known to have: a target of the library names them by their id."""
    return [each for each in faults() if not each.classes and each.shows(signature) and each.applies(strict=False)]


def other_versions(signature: str, thing: Any) -> str:
    """Return a reason if the fault is recorded for other versions only, as a clause, else ''."""
    return next((fault.why_out_of_range for fault in _candidates(signature, thing) if fault.why_out_of_range), "")


def find(name: str) -> Fault | None:
    """The fault of this id."""
    return _registry().get(name)


def distribution(package: str) -> str:
    """The distribution of a top-level package, where its name is another one: ``pytorch-ignite`` for ``ignite``."""
    return _packages().get(package, package)


def nearest_id(name: str) -> str:
    """``; did you mean 'x'?``, or nothing when no id is near."""
    return nearest(name, _registry())


def faults() -> tuple[Fault, ...]:
    """All faults, in the order of the files."""
    return tuple(_registry().values())


def _candidates(signature: str, thing: Any) -> Iterator[Fault]:
    """The faults of this signature, those of the object's own class before those of a base class."""
    found = [fault for fault in faults() if fault.classes and fault.shows(signature) and fault.is_in(thing)]
    names = _names(thing)
    return iter(sorted(found, key=lambda fault: min(map(names.index, {*fault.classes} & {*names}), default=len(names))))


@cache
def _packages() -> dict[str, str]:
    return {name.partition(".")[0]: fault.library for fault in faults() for name in fault.classes}


_added: dict[str, Fault] = {}
"""The faults of other registries, by id."""


@cache
def _registry() -> dict[str, Fault]:
    read = [fault for path in sorted(FOLDER.glob("*.json")) for fault in read_faults(path)]
    return {fault.id: fault for fault in read} | _added


def add_registry(name: str, base: Path) -> None:
    """Read the JSON files of a folder or an importable package; an entry takes the place of one with the same id.

    A relative folder is meant from ``base``.

    Raises:
        UsageError: where there is no such folder or package, or a file of it is none of the registry.
    """
    folder = base / name
    if not folder.is_dir():
        try:
            found = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            found = None
        folders = list(found.submodule_search_locations or ()) if found else []
        if not folders:
            raise UsageError(f"there is no folder {folder} and no package {name!r}; expected one with JSON files")
        folder = Path(folders[0])
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise UsageError(f"{folder} has no JSON file; expected files such as those of pytest_evalcheck/upstream")
    for path in paths:
        _added.update((fault.id, fault) for fault in read_faults(path))
    _registry.cache_clear()
    _packages.cache_clear()


def read_faults(path: Path) -> list[Fault]:
    """The faults of one file.

    Raises:
        UsageError: where it is not JSON, or a field is missing or unknown.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}") from error
    require_fields(data, ("library", "versions", "faults"), ("library", "versions", "faults"), str(path))
    known = [one.name for one in fields(Fault)]
    required = [one.name for one in fields(Fault) if one.default is MISSING]
    common = {name: data[name] for name in ("library", "versions")}
    lists, found = ("signatures", "classes", "owner_of"), []
    for number, entry in enumerate(data["faults"], 1):
        given = {**common, **entry} if isinstance(entry, dict) else entry
        place = f"{path}, {given['id'] if isinstance(given, dict) and 'id' in given else f'fault {number}'}"
        require_fields(given, required, known, place)
        values: dict[str, Any] = {name: tuple(value) if name in lists else value for name, value in given.items()}
        found.append(Fault(**values))
    return found


@cache
def _pattern(text: str) -> re.Pattern[str]:
    # Brackets and question marks stand for themselves.
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)


def _names(thing: Any) -> list[str]:
    function = _function(thing)
    return [*map(_qualified, type(thing).__mro__ if function is None else [function])]


def _qualified(named: Any) -> str:
    return f"{named.__module__}.{named.__qualname__}"


def _function(thing: Any) -> Any:
    """A function, or the one that a partial calls; None for an object."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    return thing if inspect.isroutine(thing) else None


def _stands_under_its_name(function: Any) -> bool:
    """Return whether its module has this function under its name: a wrapper of a user has the same name."""
    found: Any = sys.modules.get(function.__module__ or "")
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function


def _owner(cls: type, method: str) -> str:
    """The package of the class that defines a method; empty where none does."""
    owner = next((base for base in cls.__mro__ if method in vars(base)), None)
    return owner.__module__.split(".")[0] if owner else ""


def _modules_inside(thing: Any) -> list[Any]:
    # Looked up in the class: an object may answer every name.
    has_modules = callable(getattr(type(thing), "modules", None))
    return [module for module in thing.modules() if module is not thing] if has_modules else []
