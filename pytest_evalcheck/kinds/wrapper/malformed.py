"""Batches that a wrapper must reject, derived from a good one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pytest_evalcheck.expectations.comparison import Raised, Tolerance, difference


@dataclass(frozen=True)
class MalformedBatch:
    """A batch with one field that is missing or malformed."""

    field: str
    fault: Literal["missing", "of another length", "of another dtype"]
    batch: Any

    def problem(self, actual: Mapping[str, Any], good: Mapping[str, Any], tolerance: Tolerance) -> str:
        """Return how the results of a wrapper for this batch are wrong, given those for the good batch, or ''."""
        errors = [value for value in actual.values() if isinstance(value, Raised)]
        if self.fault == "missing":
            unnamed = [str(error) for error in errors if self.field not in str(error.error)]
            return f"no error names it: {unnamed[0]}" if unnamed else ""
        if errors:
            return ""
        if self.fault == "of another length":
            return "it was scored"
        line = difference(dict(actual), dict(good), tolerance)
        return f"it was scored, with other values: {line}" if line else ""

    def form(self, good: Mapping[str, Any]) -> tuple[str, Any]:
        """Return how a script judges the results for this batch, and the value beside them."""
        forms = {"missing": ("names", self.field), "of another length": ("error", None)}
        return forms.get(self.fault, ("same", good))


def malformed_batches(good: Any, labels: str) -> list[MalformedBatch]:
    """Each field of a mapping missing, and its labels too short or of another dtype; none for another container."""
    if not isinstance(good, Mapping):
        return []
    batches = [MalformedBatch(str(name), "missing", without_field(good, name)) for name in good]
    if hasattr(good.get(labels), "is_floating_point"):
        other_dtype = good[labels].long() if good[labels].is_floating_point() else good[labels].float()
        # torch broadcasts a single label to every row.
        short = good[labels][:1] if len(good[labels]) > 1 else good[labels][:0]
        batches.append(MalformedBatch(labels, "of another length", {**good, labels: short}))
        batches.append(MalformedBatch(labels, "of another dtype", {**good, labels: other_dtype}))
    return batches


def without_field(batch: Any, field: Any) -> Any:
    """A batch without a field; None where it is not a mapping that has it."""
    if not isinstance(batch, Mapping) or field not in batch:
        return None
    return {name: value for name, value in batch.items() if name != field}
