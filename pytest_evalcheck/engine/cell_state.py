"""What one cell has shown so far. The runner writes it; the judge reads it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from pytest_evalcheck.expectations.failures import CheckFailure, ComparisonStats, TargetError
from pytest_evalcheck.reports.case_codec import case_fields, is_plain


class SearchOver(BaseException):
    """The time for shrinking is over; the smallest failing case so far is reported."""


@dataclass
class CellState:
    """What one cell has shown so far."""

    stats: ComparisonStats
    seconds: float = 0.0
    """Wall time of the whole cell, once it has ended."""
    warm: float = 0.0
    """When the first case ended, which may have imported the library of the target."""
    examples: int = 0
    regimes: Counter[str] = field(default_factory=Counter)
    kept_once: bool = False
    """Whether at least one case kept the promise."""
    failure: CheckFailure | None = None
    case: Any = None
    """The smallest failing case."""
    failed_at: float = 0.0
    traceback: str = ""
    ledger: Any = None
    """Of transfers in the case that was tried last, on a simulated device."""
    failing_ledger: Any = None
    """The same of the failing case."""
    ended_by: BaseException | None = None
    """What ended the search; None where it came to its end."""


def ledger_totals(ledger: Any) -> dict[str, Any]:
    """How many transfers and host synchronisations there were, and the bytes by direction."""
    directions = sorted({(transfer.source, transfer.target) for transfer in ledger.transfers})
    bytes_of = {f"{source} -> {target}": ledger.bytes(source, target) for source, target in directions}
    return {"transfers": len(ledger.transfers), "syncs": len(ledger.syncs), "bytes": bytes_of}


def require_plain(case: Any) -> None:
    """Require that a case prints as Python.

    Raises:
        TargetError: when a field holds anything but plain values.
    """
    odd = next(((name, value) for name, value in case_fields(case).items() if not is_plain(value)), None)
    if odd:
        raise TargetError(
            "a sample is not plain Python",
            actual=f"{odd[0]}={odd[1]!r}"[:200],
            expected="numbers, text, None, and tuples, lists or dicts of them; make tensors in the collate",
            cause="inputs",
        )
