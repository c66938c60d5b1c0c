"""The specification of one cell: what it tries, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evalcheck.engine.effort import EFFORTS, Effort
from pytest_evalcheck.expectations.failures import TargetError
from pytest_evalcheck.kinds.common.case import explicit
from pytest_evalcheck.kinds.common.check import Check
from pytest_evalcheck.targets import device_spec
from pytest_evalcheck.targets.target import KnownFailure, Target


@dataclass(frozen=True, kw_only=True)
class CellSpec:
    """The specification of one cell: what it tries, and how."""

    target: Target
    check: Check
    device: str
    where: str
    """The target as pytest writes it: ``evalcheck_lm.py::accuracy``."""
    effort: Effort
    timeout: float | None = 60.0
    replay: Mapping[str, Any] | None = None
    """The fields of the one case to try."""
    reproduce: Callable[[str], str] = lambda blob: f"--evalcheck-replay={blob}"
    """The command that replays a blob."""

    @property
    def key(self) -> str:
        """What identifies this cell."""
        return f"{self.where}::{self.check.name}[{self.device}]"

    @property
    def known(self) -> KnownFailure | None:
        """The entry that says this promise is known to be broken."""
        entry: KnownFailure | None = self.target.entry(self.target.known_failures, self.check)
        elsewhere = entry and entry.devices is not None and device_spec.kind(self.device) not in entry.devices
        return None if elsewhere or self.nowhere else entry

    @property
    def search(self) -> Effort:
        """The effort: at least normal for a known failure, which would else count as mended for want of cases."""
        normal = EFFORTS["normal"]
        return normal if self.known and self.effort.share < normal.share else self.effort

    @property
    def nowhere(self) -> str:
        """Why the target cannot be built on the device; empty when it can."""
        placed = device_spec.kind(self.device) == "cpu" or "device" in self.target.arguments
        return "" if placed else "its factory takes no device"

    @property
    def pinned(self) -> list[Any]:
        """The cases that are tried before any other, or instead of them."""
        if self.replay is not None:
            return [self.case(self.replay, "the replay blob")]
        if self.known and self.known.example is not None:
            return [self.case(self.known.example, "the example of the known failure")]
        # Hypothesis tries the example that was added last first.
        return explicit(self.check.case, self.target.inputs, self.target.examples)[::-1]

    @property
    def pinned_only(self) -> bool:
        """Whether nothing is drawn beside the pinned cases."""
        return self.replay is not None or bool(self.known and self.known.example is not None)

    @property
    def lacks(self) -> str:
        """What the check needs and the target does not give; empty when nothing is lacking."""
        for name in self.check.needs:
            if name == "reference" and self.target.reference is None:
                return "the target names no reference"
            if name != "reference" and getattr(self.target.inputs, name) is None:
                return f"samples of {self.target.inputs.name} have no {name}"
        return ""

    def case(self, values: Mapping[str, Any], source: str) -> Any:
        """A case of the check from its fields.

        Raises:
            TargetError: when the fields are not those of the check's cases.
        """
        wanted = list(self.check.case.__dataclass_fields__)  # type: ignore[attr-defined]
        if sorted(values) != sorted(wanted):
            raise TargetError(
                f"{source} does not fit {self.check.code}",
                expected=f"the fields {', '.join(wanted)}",
                actual=", ".join(values),
                detail="It is stale or belongs to another check.",
                cause="replay",
            )
        return self.check.case(**values)
