"""A mistake in a target, or an error of a library on ordinary data: one of its cells reports it, and no other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pytest_evalcheck.kinds.common.check import Check
from pytest_evalcheck.reports.results import Cell

TARGET_ERROR = "target error"
"""The cause of a target that fails in the plain call, and of its cells that are not run for it."""
FAULT = "error on ordinary data"
"""The cause of the cells that a library's error in the plain call leaves without a value in any case."""


@dataclass(eq=False)
class TargetErrorReporter:
    """The cells of a target that report what its plain call showed."""

    mistake: str = ""
    """The key of the cell that reports a mistake in the target; empty for the first one that finds it."""
    fault: str = ""
    """The code of the check that reports an error of a library; empty for the first one that finds it."""

    def reported(self, judged: Cell, key: str) -> Cell:
        """Return the cell of a key as it is, or as not tried where another cell reports why."""
        if judged.cause == TARGET_ERROR:
            self.mistake = self.mistake or key
            if self.mistake != key:
                reason = f"{TARGET_ERROR}: the error is that of the first check of this target"
                return replace(judged, outcome="not run", reason=reason, failure=None)
        if judged.cause == FAULT:
            self.fault = self.fault or judged.code
            if self.fault != judged.code:
                reason = f"every case raises the error on ordinary data that {self.fault} reports"
                return replace(judged, outcome="not applicable", reason=reason, cause="", signature="", failure=None)
        return judged


def reports_faults(checks: Iterable[Check]) -> str:
    """Return the code of the check that reports an error of a library; empty where none of them is about that."""
    return next((check.code for check in checks if check.ordinary), "")


def was_reported_before(cell: Cell) -> bool:
    """Return whether a cell was not run since another one reports the mistake in its target."""
    return cell.outcome == "not run" and cell.cause == TARGET_ERROR
