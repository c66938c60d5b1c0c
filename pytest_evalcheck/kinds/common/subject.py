"""What every subject is made of, whatever the kind of its target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evalcheck.expectations.comparison import Tolerance
from pytest_evalcheck.strategies.samples import Sample, SampleStrategy

Rows = Sequence[Sample]


@dataclass(frozen=True)
class Subject:
    """The thing under test: new ones on demand, and the samples to give them."""

    build: Callable[[], Any]
    inputs: SampleStrategy
    device: str = "cpu"
    reference: Callable[[Rows], Any] | None = None
    tolerance: Tolerance = field(default_factory=Tolerance)
    elsewhere: Callable[[str], Any] | None = None
    """The same subject on another device, where the target can be built there."""
    ledger: Any = None
    """What crosses between devices, where that is counted."""
    budget: Mapping[str, int] = field(default_factory=dict)
    """What scoring one batch may cost there."""
    variants: Mapping[str, Any] = field(default_factory=dict)
    """By name, optimised configurations of the same loop."""
