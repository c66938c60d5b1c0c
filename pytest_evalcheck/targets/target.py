"""What a user writes: a decorated factory of the thing under test, and what is known about it."""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_evalcheck.expectations.comparison import Tolerance
from pytest_evalcheck.kinds.common.check import Check
from pytest_evalcheck.kinds.registry import shipped
from pytest_evalcheck.strategies.samples import SampleStrategy


@dataclass(frozen=True)
class KnownFailure:
    """A promise that is known to be broken, and why. Strict: once the promise is kept, the entry must go."""

    reason: str
    see: str = field(default="", kw_only=True)
    """The upstream report, such as ``mosaicml/composer#3196``; empty when none was found."""
    example: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """The case that shows it, as a failure prints it: ``dict(samples=[...], batches=[...])``. With it the cell
    costs one call and is deterministic."""
    devices: tuple[str, ...] | None = field(default=None, kw_only=True)
    """The kinds of device that it is about, such as ``("mps",)``; all of them by default."""


@dataclass(kw_only=True, eq=False)
class Target:
    """A factory with its inputs. Made by a decorator, never by hand; it does not change afterwards."""

    kind: str
    factory: Callable[..., Any]
    inputs: SampleStrategy
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
    budget: Mapping[str, int]
    options: Mapping[str, Any]
    """The keywords that its kind takes beside the common ones."""
    problems: tuple[str, ...] = ()
    """What is wrong with the target. It is reported when the target is collected, so that the others of a file run."""
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
        return (*(made for made in shipped() if self.kind in made.kinds), *self.extra_checks)

    def entry(self, table: Mapping[str, Any], made: Check) -> Any:
        """What a table by code or name says about a check."""
        return table.get(made.code, table.get(made.name))

    def missing(self) -> str:
        """Why the target cannot run here: a requirement that is not installed; empty when it can."""
        return next((why for why in map(_missing, self.requires) if why), "")


def requirement(text: str) -> Any:
    """A requirement as packaging reads it.

    Raises:
        ValueError: when it is none.
    """
    from packaging.requirements import Requirement  # comes with pytest

    return Requirement(text)


def _missing(text: str) -> str:
    wanted = requirement(text)
    try:
        found = importlib.metadata.version(wanted.name)
    except importlib.metadata.PackageNotFoundError:
        return f"{wanted.name} is not installed"
    if wanted.specifier.contains(found, prereleases=True):
        return ""
    return f"{wanted.name} {found} is installed, {wanted.specifier} is required"
