"""The registry: every kind and every check, ours and those of other distributions, and the adapters of these.

Other distributions name what they add as an entry point of the group ``pytest_evalcheck``: a `KindSpec`, a `Check`,
an `Adapter`, or a list of these. They are loaded when the registry is first asked; what cannot be loaded becomes a
problem that names its distribution, and everything else goes on.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evalcheck.errors import UsageError, nearest
from pytest_evalcheck.kinds.common.check import Check, explain
from pytest_evalcheck.kinds.common.kind import Adapter, KindSpec
from pytest_evalcheck.kinds.common.subject import Subject
from pytest_evalcheck.reports.text import line

ENTRY_POINTS = "pytest_evalcheck"
"""The group of entry points."""

SHIPPED_KINDS = ("decoder", "engine", "loop", "metric", "scorer", "task", "wrapper")
_SHARED_CHECKS = (
    "pytest_evalcheck.kinds.common.checks_ordinary",
    "pytest_evalcheck.kinds.common.checks_intervals",
    "pytest_evalcheck.kinds.device.checks",
)
"""Modules of checks that are about several kinds."""


@dataclass
class _Registry:
    kinds: dict[str, KindSpec] = field(default_factory=dict)
    checks: dict[str, Check] = field(default_factory=dict)
    adapters: dict[tuple[str, str], Adapter] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    _ordered: tuple[Check, ...] | None = None

    @property
    def ordered(self) -> tuple[Check, ...]:
        """The checks in the order of their codes; each target of a run asks for them."""
        if self._ordered is None:
            self._ordered = tuple(self.checks[code] for code in sorted(self.checks))
        return self._ordered

    @classmethod
    def load(cls) -> _Registry:
        """Everything that is shipped, and everything that the entry points of other distributions name."""
        registry = cls()
        for name in SHIPPED_KINDS:
            registry.add(importlib.import_module(f"pytest_evalcheck.kinds.{name}.spec").SPEC)
        registry._add_checks(_SHARED_CHECKS)
        for entry in sorted(importlib.metadata.entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
            try:
                registry.add_all(entry.load())
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                source = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown distribution"
                text = str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"
                registry.problems.append(
                    f"the entry point {entry.name} = {entry.value!r} of {source} is left out: {text}"
                )
        return registry

    def add_all(self, thing: Any) -> None:
        """Add one thing, or all of a list; either all of them or none."""
        things = list(thing) if isinstance(thing, (list, tuple)) else [thing]
        trial = _Registry(dict(self.kinds), dict(self.checks), dict(self.adapters))
        # Kinds first, so that a list may hold them in any order.
        for each in sorted(things, key=lambda each: not isinstance(each, KindSpec)):
            trial.add(each)
        self.kinds, self.checks, self.adapters = trial.kinds, trial.checks, trial.adapters
        self._ordered = None

    def add(self, thing: Any) -> None:
        """Add a kind, a check or an adapter."""
        if isinstance(thing, KindSpec):
            self._add_kind(thing)
        elif isinstance(thing, Check):
            self._add_check(thing)
        elif isinstance(thing, Adapter):
            self._add_adapter(thing)
        else:
            raise UsageError(f"{thing!r} cannot be registered; expected an ec.Check, ec.KindSpec or ec.Adapter")

    def kind(self, name: str) -> KindSpec:
        if name not in self.kinds:
            expected = ", ".join(sorted(self.kinds))
            raise UsageError(f"there is no kind {name!r}; expected one of {expected}{nearest(str(name), self.kinds)}")
        return self.kinds[name]

    def _add_kind(self, kind: KindSpec) -> None:
        if kind.name in self.kinds:
            raise UsageError(f"the kind {kind.name!r} is registered twice")
        if not (isinstance(kind.subject, type) and issubclass(kind.subject, Subject)):
            raise UsageError(f"the kind {kind.name!r} has the subject {kind.subject!r}; expected a class of ec.Subject")
        if kind.subject.kind != kind.name:
            raise UsageError(
                f"{kind.subject.__name__}.kind is {kind.subject.kind!r}; expected {kind.name!r}, the name of its kind"
            )
        self.kinds[kind.name] = kind
        self._add_checks(kind.checks)

    def _add_checks(self, modules: Iterable[str]) -> None:
        for name in modules:
            for value in vars(importlib.import_module(name)).values():
                if isinstance(value, Check):
                    self._add_check(value)

    def _add_check(self, check: Check) -> None:
        other = self.checks.get(check.code)
        if other is check:
            return
        if other is not None:
            raise UsageError(f"the code {check.code} of {check.name} is registered twice: it is {other.name}")
        names = {known.name: known.code for known in self.checks.values()}
        if check.name in names:
            raise UsageError(f"the check {check.name} is registered twice: as {names[check.name]} and {check.code}")
        for kind in check.kinds:
            if kind not in self.kinds and kind not in SHIPPED_KINDS:
                expected = ", ".join(sorted(self.kinds))
                raise UsageError(
                    f"the check {check.code} {check.name} is for the kind {kind!r}, which does not exist; "
                    f"expected one of {expected}{nearest(kind, self.kinds)}"
                )
        self.checks[check.code] = check
        self._ordered = None

    def _add_adapter(self, adapter: Adapter) -> None:
        self.kind(adapter.kind)
        if not callable(adapter.record):
            raise UsageError(f"the adapter of {adapter.cls} has record={adapter.record!r}; expected a function")
        if (adapter.kind, adapter.cls) in self.adapters:
            raise UsageError(f"the adapter of {adapter.cls} for the kind {adapter.kind!r} is registered twice")
        self.adapters[adapter.kind, adapter.cls] = adapter


_registry: _Registry | None = None


def _loaded() -> _Registry:
    global _registry
    if _registry is None:
        _registry = _Registry.load()
    return _registry


def register(*things: Check | KindSpec | Adapter) -> None:
    """Add checks, kinds or adapters for the rest of this process: either all of them or none.

    A distribution names them as an entry point of the group ``pytest_evalcheck`` instead.

    Raises:
        UsageError: when one of them is something else, is registered already, or is about a kind that is not there.
    """
    _loaded().add_all(list(things))


def kinds() -> Sequence[KindSpec]:
    """Every kind, by name."""
    return [_loaded().kinds[name] for name in sorted(_loaded().kinds)]


def kind_of(name: str) -> KindSpec:
    """The kind of this name.

    Raises:
        UsageError: when there is none.
    """
    return _loaded().kind(name)


def registered_adapters(kind: str) -> Mapping[str, Adapter]:
    """Return the adapters that other distributions have registered for a kind, by the qualified names of classes."""
    return {cls: adapter for (of, cls), adapter in _loaded().adapters.items() if of == kind}


def shipped() -> tuple[Check, ...]:
    """Every registered check, in the order of their codes."""
    return _loaded().ordered


def explanation(word: str) -> str:
    """The documentation of the check whose code or name begins with ``word``; of several a line each.

    Raises:
        UsageError: when there is none, with the nearest.
    """
    checks = [check for check in shipped() if check.code.startswith(word.upper()) or check.name.startswith(word)]
    if not checks:
        raise UsageError(no_match(word, {check.code: check.name for check in shipped()}))
    exact = [check for check in checks if word.upper() == check.code or word == check.name]
    if len(exact or checks) == 1:
        return explain(*(exact or checks))
    return "\n".join(f"{check.code} {check.name}: {line(check.statement)}" for check in checks)


def no_match(word: str, names: Mapping[str, str]) -> str:
    """The sentence about a word that is the beginning of no check; ``names`` are those of the checks, by code."""
    parts = [name.split("_") for name in names.values()]
    beginnings = {"_".join(part[:count]) for part in parts for count in range(1, len(part) + 1)}
    near = nearest(word.upper(), names, cutoff=0.6) or nearest(word, [n for n in names.values() if word in n], cutoff=0)
    return f"no check matches {word!r}{near or nearest(word, [each for each in beginnings if len(each) > 3])}"


def problems() -> Sequence[str]:
    """Problems of what could not be registered by an entry point, one sentence each."""
    return tuple(_loaded().problems)
