"""The specification of one cell: what it tries, and how."""

from __future__ import annotations

import dis
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import CodeType
from typing import Any

from pytest_evalcheck.engine.effort import EFFORTS, Effort
from pytest_evalcheck.expectations.failures import TargetError
from pytest_evalcheck.fixes.patches.applying import is_mended
from pytest_evalcheck.kinds.common.case import canonical_cases, given_cases
from pytest_evalcheck.kinds.common.check import Check
from pytest_evalcheck.reports.severity import Severity
from pytest_evalcheck.targets import device_spec
from pytest_evalcheck.targets.target import KnownFailure, Target

USUAL_SECONDS = 60.0
"""The limit of a cell where nobody gives one."""


@dataclass(frozen=True, kw_only=True)
class CellSpec:
    """The specification of one cell: what it tries, and how."""

    target: Target
    check: Check
    device: str
    where: str
    """The target as pytest writes it: ``evalcheck_lm.py::accuracy``."""
    effort: Effort
    timeout: float | None = None
    """Limit of the run in seconds, 0 for none; None where nobody gives one: `USUAL_SECONDS`, more for slow targets."""
    replay: Mapping[str, Any] | None = None
    """The fields of the one case to try."""
    listed: tuple[KnownFailure, ...] = ()
    """The known failures that the baseline of the project lists."""
    reproduce: Callable[[str], str] = lambda blob: f"--evalcheck-replay={blob}"
    """The command that replays a blob."""
    fail_on: Severity = "cost"
    """The least severity that fails; a less severe failure is reported as known."""
    strict_versions: bool = False
    """An upstream fault that is unverified for the installed release of its library is not known."""
    inferred: bool = False
    """The file of the target is a generated one, so that the target is shown at what it makes."""

    @property
    def is_guess(self) -> bool:
        """Return whether inference chose the target and its inputs by trial; any function may be such a one.

        What wraps a model, decodes or loops over a loader has more to tell it by.
        """
        return self.inferred and bool(self.target.inputs.observed) and self.target.kind in ("metric", "scorer")

    @property
    def unused_device_reason(self) -> str:
        """A clause about a factory that is given an accelerator and does not use it; empty for any other."""
        code = getattr(self.target.factory, "__code__", None)
        if device_spec.kind(self.device) == "cpu" or not isinstance(code, CodeType):
            return ""
        if (
            "device" not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        ):  # a decorator's may pass it on
            return ""
        names = (
            step.argval if isinstance(step.argval, tuple) else (step.argval,) for step in dis.get_instructions(code)
        )
        if any("device" in each for each in names):
            return ""
        return "the factory does not use its argument `device`; let it return what is `.to(device)`"

    @property
    def given_limit(self) -> float | None:
        """The limit in seconds that the target gives, else the run; 0 for none, None where nobody gives one."""
        return self.timeout if self.target.timeout is None else self.target.timeout

    @property
    def key(self) -> str:
        """The identity of this cell."""
        return f"{self.where}::{self.check.name}[{self.device}]"

    @property
    def known(self) -> tuple[KnownFailure, ...]:
        """The entries that say this check is known to fail on this device."""
        if self.cannot_build_reason:
            return ()
        kind = device_spec.kind(self.device)
        found = (entry for entry in self.entries if entry.devices is None or kind in entry.devices)
        return tuple(each for each in found if each.fault is None or each.fault.applies(strict=self.strict_versions))

    @property
    def entries(self) -> tuple[KnownFailure, ...]:
        """The known failures of this check that the target and the baseline list, but those that a patch mends."""
        entries = self.target.entry(self.target.known_failures, self.check) or ()
        listed = (*((entries,) if isinstance(entries, KnownFailure) else entries), *self.listed)
        return tuple(entry for entry in listed if not is_mended(entry.upstream))

    @property
    def planned(self) -> int:
        """The number of cases: at least that of normal effort for a known failure that names no case."""
        looks = any(entry.example is None for entry in self.known)
        effort = EFFORTS["normal"] if looks and self.effort.share < EFFORTS["normal"].share else self.effort
        return effort.examples(self.check.examples)

    @property
    def cannot_build_reason(self) -> str:
        """The reason why the target cannot be built on the device; empty when it can."""
        placed = device_spec.kind(self.device) == "cpu" or "device" in self.target.arguments
        return "" if placed else "its factory takes no device"

    @property
    def declared_device(self) -> str:
        """The kind of device, if the target declares this accelerator: what is not tried there is not run; else ''."""
        kind = device_spec.kind(self.device)
        return kind if kind != "cpu" and kind in (self.target.devices or ()) else ""

    @property
    def not_placed(self) -> str:
        """The reason why nothing is run on an accelerator that the target declares: its factory takes no device."""
        if not (self.cannot_build_reason and self.declared_device):
            return ""
        name, kind = self.target.name, self.declared_device
        return f"devices= names {kind}, but the factory takes no device; write {name}(device), or take {kind} out"

    @property
    def inapplicable(self) -> str:
        """The reason why the description of the target rules the check out; empty where it does not."""
        declared = self.target.entry(self.target.not_applicable, self.check)
        return str(declared) if declared else self.lacks or ("" if self.not_placed else self.cannot_build_reason)

    @property
    def replayed(self) -> Any:
        """The one case to try; None where there is none."""
        return None if self.replay is None else self.case(self.replay, "the replay blob")

    @property
    def given(self) -> list[Any]:
        """The cases of the samples that the author of the target gives."""
        return given_cases(self.check.case, self.target.inputs, self.target.examples)

    @property
    def canonical(self) -> list[Any]:
        """The cases that are tried at every effort, before anything is drawn."""
        try:
            return canonical_cases(self.check.case, self.target.inputs, self.check.conditions)
        except ValueError as error:
            raise TargetError("the inputs draw too few samples", actual=str(error), cause="inputs") from error

    @property
    def seed(self) -> int:
        """The seed of what is drawn: it depends on nothing but the name of the cell."""
        name = f"{self.target.name}::{self.check.code}[{self.device}]"
        return zlib.crc32(name.encode())

    @property
    def lacks(self) -> str:
        """A need of the check that the target does not meet; empty when it meets all."""
        for name in self.check.needs:
            if name == "reference" and self.target.reference is None:
                return "the target names no reference"
            if name in self.target.options and not self.target.options[name]:
                return (
                    f"the target declares no {name}"
                    if name != "symmetric"
                    else "the target is not said to be symmetric"
                )
            if name != "reference" and name not in self.target.options and getattr(self.target.inputs, name) is None:
                return f"samples of {self.target.inputs.name} have no {name}"
        return ""

    def case(self, values: Mapping[str, Any], source: str) -> Any:
        """A case of the check from its fields.

        Raises:
            TargetError: when the fields are not those of the check's cases.
        """
        wanted = [field.name for field in fields(self.check.case)]  # type: ignore[arg-type]
        if sorted(values) != sorted(wanted):
            raise TargetError(
                f"{source} does not fit {self.check.code}",
                expected=f"the fields {', '.join(wanted)}",
                actual=", ".join(values),
                detail="It is stale or belongs to another check.",
                cause="replay",
            )
        return self.check.case(**values)
