"""What a user writes: a decorated factory of the thing under test, and what is known about it."""

from __future__ import annotations

import difflib
import importlib.metadata
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_evalcheck.checks import Check, shipped
from pytest_evalcheck.compare import Tolerance
from pytest_evalcheck.strategies.samples import Samples


class TargetError(Exception):
    """A target is not written as a target: what was wrong, what was expected, the nearest right thing."""


@dataclass(frozen=True)
class KnownFailure:
    """A promise that is known to be broken, and why. Strict: once the promise is kept, the entry must go."""

    reason: str
    see: str = field(default="", kw_only=True)
    """The upstream report, such as ``mosaicml/composer#3196``; empty when none was found."""
    example: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """The case that shows it, as a failure prints it: ``dict(samples=[...], batches=[...])``. With it the cell
    costs one call and is deterministic."""


@dataclass(kw_only=True, eq=False)
class Target:
    """A factory with its inputs. Made by a decorator, never by hand; it does not change afterwards."""

    kind: str
    factory: Callable[..., Any]
    inputs: Samples
    known_failures: Mapping[str, KnownFailure]
    not_applicable: Mapping[str, str]
    examples: tuple[list[Any], ...]
    devices: tuple[str, ...] | None
    requires: tuple[str, ...]
    extra_checks: tuple[Check, ...]
    tolerance: Tolerance
    reference: Callable[[Any], Any] | None
    fresh: Literal["example", "cell"]
    isolated: bool
    timeout: float | None
    problems: tuple[str, ...] = ()
    """What is wrong with the target. Told when it is collected, so that the other targets of a file still run."""
    pytestmark: list[Any] = field(default_factory=list)

    __test__ = False
    _frozen = False

    def __post_init__(self) -> None:
        self.__name__ = getattr(self.factory, "__name__", "target")
        self.__doc__ = self.factory.__doc__
        self._frozen = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._frozen and name != "pytestmark":  # pytest's marks are put on by assignment
            raise AttributeError(f"a target does not change; give {name} to its decorator")
        object.__setattr__(self, name, value)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """What the factory makes. Being callable also lets pytest's marks be put on a target."""
        return self.factory(*arguments, **keywords)

    @property
    def name(self) -> str:
        """The name of the factory."""
        return self.__name__

    @property
    def file(self) -> str:
        """The file that the factory stands in."""
        code = getattr(inspect.unwrap(self.factory), "__code__", None)
        return code.co_filename if code else "<unknown>"

    @property
    def line(self) -> int:
        """The line of its decorator or of its ``def``."""
        code = getattr(inspect.unwrap(self.factory), "__code__", None)
        return code.co_firstlineno if code else 0

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the factory asks for: ``device`` and fixtures."""
        return tuple(inspect.signature(self.factory).parameters)

    @property
    def checks(self) -> tuple[Check, ...]:
        """The promises that are tried on it."""
        return (*(made for made in shipped() if made.kind == self.kind), *self.extra_checks)

    def entry(self, table: Mapping[str, Any], made: Check) -> Any:
        """What a table by code or name says about a check."""
        return table.get(made.code, table.get(made.name))

    def missing(self) -> str:
        """Why the target cannot run here: a requirement that is not installed; empty when it can."""
        return next((why for why in map(_missing, self.requires) if why), "")


def metric(
    *,
    inputs: Samples | None = None,
    known_failures: Mapping[str, KnownFailure] | None = None,
    not_applicable: Mapping[str, str] | None = None,
    examples: Sequence[Sequence[Any]] = (),
    devices: Sequence[str] | None = None,
    requires: Sequence[str] = (),
    extra_checks: Sequence[Check] = (),
    tolerance: Tolerance | float | None = None,
    reference: Callable[[Any], Any] | None = None,
    fresh: Literal["example", "cell"] = "example",
    isolated: bool = False,
    timeout: float | None = None,
    **unknown: Any,
) -> Callable[[Callable[..., Any]], Target]:
    """Make a metric target of a factory: ``factory(device, ...)`` gives a new metric every time it is called.

    ``inputs`` draws samples (`pytest_evalcheck.strategies`). ``known_failures`` and ``not_applicable`` are keyed by
    the code or the name of a check. ``examples`` are lists of samples that every check tries first. ``requires``
    names distributions (``"transformers>=5"``) without which the target is not run. ``reference`` maps samples to
    the value that is right. ``tolerance`` is a relative one, or a `Tolerance`. With ``fresh="cell"`` the factory is
    called once a cell and copied for every example. ``isolated`` runs every cell in a process of its own.
    ``timeout`` is in seconds a cell.
    """

    def decorate(factory: Callable[..., Any]) -> Target:
        problems = [*_unknown_keywords(metric, unknown)]
        if not isinstance(inputs, Samples):
            problems.append(
                f"inputs={inputs!r}; expected samples, e.g. pytest_evalcheck.strategies.multiclass(classes=5), "
                "or strategies.samples(strategy, collate=...) for your own"
            )
        problems += _check_factory(factory)
        extras = tuple(extra_checks)
        problems += [
            f"extra_checks holds {e!r}; expected functions decorated with @ec.check"
            for e in extras
            if not isinstance(e, Check)
        ]
        extras = tuple(e for e in extras if isinstance(e, Check))
        problems += _check_extras(extras)
        checks = (*(made for made in shipped() if made.kind == "metric"), *extras)
        problems += _check_codes("known_failures", known_failures or {}, checks, KnownFailure)
        problems += _check_codes("not_applicable", not_applicable or {}, checks, str)
        both = set(known_failures or {}) & set(not_applicable or {})
        problems += [f"{code} is both a known failure and not applicable" for code in sorted(both)]
        problems += _check_requirements(requires)
        if fresh not in ("example", "cell"):
            problems.append(f"fresh={fresh!r}; expected 'example' or 'cell'")
        if timeout is not None and not timeout > 0:
            problems.append(f"timeout={timeout!r}; expected seconds above 0")
        return Target(
            kind="metric",
            factory=factory,
            inputs=inputs,  # type: ignore[arg-type]  # a wrong one is among the problems
            known_failures=dict(known_failures or {}),
            not_applicable=dict(not_applicable or {}),
            examples=tuple(list(rows) for rows in examples),
            devices=None if devices is None else tuple(devices),
            requires=tuple(requires),
            extra_checks=extras,
            tolerance=_tolerance(tolerance, problems),
            reference=reference,
            fresh=fresh,
            isolated=isolated,
            timeout=timeout,
            problems=tuple(problems),
        )

    return decorate


def nearest(word: str, words: Sequence[str]) -> str:
    """``; did you mean 'x'?``, or nothing when no word is near."""
    found = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f"; did you mean {found[0]!r}?" if found else ""


def _unknown_keywords(decorator: Callable[..., Any], unknown: Mapping[str, Any]) -> list[str]:
    parameters = inspect.signature(decorator).parameters.values()
    known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    return [f"unknown keyword {name!r}{nearest(name, known)}" for name in unknown]


def _check_factory(factory: Any) -> list[str]:
    if not inspect.isfunction(factory):
        return [f"a target is a decorated function, got {factory!r}"]
    odd = [
        p.name for p in inspect.signature(factory).parameters.values() if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    return [f"the factory takes *{name}; expected `device` and fixtures by name" for name in odd]


def _check_extras(extras: Sequence[Check]) -> list[str]:
    taken = {made.code: made.name for made in shipped()}
    problems = []
    for made in extras:
        if made.code in taken:
            problems.append(f"extra check {made.name} has the code {made.code}, which is {taken[made.code]}")
        if made.kind != "metric":
            problems.append(f"extra check {made.name} is about a {made.kind}, this target is a metric")
    return problems


def _check_codes(table: str, entries: Mapping[str, Any], checks: Sequence[Check], kind: type) -> list[str]:
    words = [word for made in checks for word in (made.code, made.name)]
    problems = [f"{table} names no check: {key!r}{nearest(str(key), words)}" for key in entries if key not in words]
    for key, entry in entries.items():
        if not isinstance(entry, kind):
            wanted = 'ec.KnownFailure("why")' if kind is KnownFailure else "a reason as text"
            problems.append(f"{table}[{key!r}] is {entry!r}; expected {wanted}")
        elif not str(entry.reason if isinstance(entry, KnownFailure) else entry).strip():
            problems.append(f"{table}[{key!r}] gives no reason")
    return problems


def _check_requirements(requires: Sequence[str]) -> list[str]:
    problems = []
    if isinstance(requires, str):
        return [f"requires={requires!r}; expected a tuple, such as ({requires!r},)"]
    for text in requires:
        try:
            _requirement(text)
        except ValueError as error:
            problems.append(f"requires {text!r}: {str(error).splitlines()[0]}")
    return problems


def _requirement(text: str) -> Any:
    from packaging.requirements import Requirement  # comes with pytest

    return Requirement(text)


def _missing(text: str) -> str:
    requirement = _requirement(text)
    try:
        found = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return f"{requirement.name} is not installed"
    if requirement.specifier.contains(found, prereleases=True):
        return ""
    return f"{requirement.name} {found} is installed, {requirement.specifier} is required"


def _tolerance(given: Tolerance | float | None, problems: list[str]) -> Tolerance:
    if given is None or isinstance(given, Tolerance):
        return given or Tolerance()
    try:
        return Tolerance(rtol=float(given))
    except (TypeError, ValueError) as error:
        problems.append(f"tolerance={given!r}: {error}; expected a relative tolerance or ec.Tolerance(rtol=, atol=)")
        return Tolerance()
