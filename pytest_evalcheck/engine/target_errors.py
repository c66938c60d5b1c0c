"""A mistake in a target, which one of its cells reports and no other."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_evalcheck.reports.results import Cell

TARGET_ERROR = "target error"
"""The cause of a target that fails in the plain call, and of its cells that are not run for it."""


@dataclass(eq=False)
class TargetErrorReporter:
    """The one cell of a target that reports a mistake in it."""

    key: str = ""
    """The key of that cell; empty for the first one that finds the mistake."""

    def reported(self, judged: Cell, key: str) -> Cell:
        """Return the cell of a key as it is, or as not run where another cell reports the mistake in its target."""
        if judged.cause != TARGET_ERROR:
            return judged
        self.key = self.key or key
        if self.key == key:
            return judged
        reason = f"{TARGET_ERROR}: the error is that of the first check of this target"
        return replace(judged, outcome="not run", reason=reason, failure=None)


def was_reported_before(cell: Cell) -> bool:
    """Return whether a cell was not run since another one reports the mistake in its target."""
    return cell.outcome == "not run" and cell.cause == TARGET_ERROR
