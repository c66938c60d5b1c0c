"""Targets: decorated factories of the thing under test, and what is known about it."""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from pytest_evalcheck.expectations.comparison import Tolerance
from pytest_evalcheck.kinds.common.check import Check
from pytest_evalcheck.kinds.registry import shipped
from pytest_evalcheck.strategies.samples import SampleStrategy
from pytest_evalcheck.targets import device_spec
from pytest_evalcheck.upstream import Fault, find, nearest_id


@dataclass(frozen=True)
class KnownFailure:
    """A check that is known to fail, and why. Strict: once the check passes, the entry must go.

    Failures of the same signature are known, and others are not: where a property fails in several ways, its check
    has several entries.
    """

    reason: str = ""
    see: str = field(default="", kw_only=True)
    """The upstream report, such as ``mosaicml/composer#3196``; empty when none was found."""
    example: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """The case that shows it, as a failure prints it: ``dict(samples=[...], batches=[...])``. It is tried first, and
    must fail. An entry without one covers the first signature that is found."""
    devices: tuple[str, ...] | None = field(default=None, kw_only=True)
    """The kinds of device that it is about, such as ``("mps",)``; all of them by default."""
    upstream: str = field(default="", kw_only=True)
    """The id of a fault of the registry (docs/upstream.md), which has the reason, the report and all signatures."""
    signature: str = field(default="", kw_only=True)
    """The signature that it covers, as the JSON report has it; empty for that of the example, or for the first one."""
    values: tuple[str, ...] = field(default=(), kw_only=True)
    """The expected and the actual value of the example, as a failure prints them; empty for any. Where the example has
    others, its failure is another one, and not known."""
    listed: str = field(default="", kw_only=True)
    """The place that lists it, such as ``evalcheck-known.toml:12``; empty for ``known_failures`` of the target."""

    def __post_init__(self) -> None:
        fault = self.fault
        if fault is not None:
            # What is written beside an id would say the same twice, or something else.
            object.__setattr__(self, "reason", self.reason or fault.reason)
            object.__setattr__(self, "see", self.see or fault.see)

    @property
    def fault(self) -> Fault | None:
        """The fault of the registry that this is; None without an ``upstream``, or for an id that is not there."""
        return find(self.upstream) if self.upstream else None

    @property
    def out_of_range(self) -> str:
        """The reason why the entry does not apply to the installed version, as a clause; empty where it does."""
        return self.fault.why_out_of_range if self.fault else ""

    @property
    def unverified(self) -> str:
        """``unverified for torchmetrics 1.10.0``, where that release may have the upstream fault; empty elsewhere."""
        return self.fault.unverified if self.fault else ""

    def problem(self, code: str) -> str:
        """Return the problem of an entry about the check of this code; empty where there is none."""
        fault = self.fault
        if self.upstream and fault is None:
            return f"names the upstream fault {self.upstream!r}, which is not there{nearest_id(self.upstream)}"
        if fault and code not in fault.codes:
            return f"names the upstream fault {fault.id}, which is about {', '.join(fault.codes)}"
        if not str(self.reason).strip():
            return "gives no reason"
        if self.devices is not None and not set(self.devices) <= set(device_spec.KINDS):
            return f"is about {self.devices!r}; expected some of {device_spec.KINDS}"
        return ""


@dataclass(kw_only=True, eq=False)
class Target:
    """A factory with its inputs. Made by a decorator, never by hand; it does not change afterwards."""

    kind: str
    factory: Callable[..., Any]
    inputs: SampleStrategy
    known_failures: Mapping[str, KnownFailure | Sequence[KnownFailure]]
    not_applicable: Mapping[str, str]
    examples: tuple[list[Any], ...]
    devices: tuple[str, ...] | None
    requires: tuple[str, ...]
    extra_checks: tuple[Check, ...]
    tolerance: Tolerance
    reference: Callable[[Any], Any] | None
    fresh: Literal["example", "check"]
    isolated: bool
    timeout: float | None
    budget: Mapping[str, int] | None
    options: Mapping[str, Any]
    """The keywords that its kind takes beside the common ones."""
    written: tuple[str, int] = ("<unknown>", 0)
    """The file and the line where its decorator was called."""
    problems: tuple[str, ...] = ()
    """Problems of the target. They are reported when it is collected, so that the others of a file run."""
    pytestmark: list[Any] = field(default_factory=list)

    __test__ = False
    _frozen = False

    def __post_init__(self) -> None:
        name, text = getattr(self.factory, "__name__", None), getattr(self.factory, "__doc__", None)
        self.__name__ = name if isinstance(name, str) else "target"
        self.__doc__ = text if isinstance(text, str) else None
        self._frozen = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._frozen and name != "pytestmark":  # pytest's marks are put on by assignment
            raise AttributeError(f"a target cannot be changed; pass {name} to its decorator")
        object.__setattr__(self, name, value)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the factory. Being callable also lets pytest's marks be put on a target."""
        return self.factory(*arguments, **keywords)

    @property
    def name(self) -> str:
        """The name of the factory."""
        return self.__name__

    @property
    def file(self) -> str:
        """The file that the factory stands in."""
        code = self._code
        return code.co_filename if code else self.written[0]

    @property
    def line(self) -> int:
        """The line of its decorator or of its ``def``."""
        code = self._code
        return code.co_firstlineno if code else self.written[1]

    @property
    def _code(self) -> Any:
        return getattr(inspect.unwrap(self.factory), "__code__", None) if inspect.isfunction(self.factory) else None

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """Return the parameters of the factory: ``device`` and fixtures, and not the options that are varied."""
        varied = self.options.get("options") or {}
        return tuple(name for name in inspect.signature(self.factory).parameters if name not in varied)

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks that are tried on it."""
        return (*(made for made in shipped() if self.kind in made.kinds), *self.extra_checks)

    def entry(self, table: Mapping[str, Any], made: Check) -> Any:
        """Return the entry of a check in a table by code or name."""
        return table.get(made.code, table.get(made.name))

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the distributions that it requires.

        Raises:
            ValueError: when a requirement cannot be read.
        """
        return tuple(requirement(text).name for text in self.requires)

    def missing(self) -> str:
        """Return the reason why the target cannot run here: a requirement that is not installed; empty when it can."""
        return next((why for _, why in self.absent), "")

    @property
    def absent(self) -> tuple[tuple[str, str], ...]:
        """The normalised names of the distributions that are not installed as it requires, with the reasons."""
        from packaging.utils import canonicalize_name  # comes with pytest

        found = ((canonicalize_name(requirement(text).name), _missing(text)) for text in self.requires)
        return tuple((name, why) for name, why in found if why)


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
