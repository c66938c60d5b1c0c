"""What has been seen of one cell so far."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from pytest_evalcheck.expectations.failures import CheckFailure, ComparisonStats
from pytest_evalcheck.kinds.common.calling import TargetError
from pytest_evalcheck.reports.case_codec import case_fields, is_plain


class SearchOver(BaseException):
    """Shrinking has had its time; the smallest failing case so far is good enough."""


@dataclass
class CellState:
    """What has been seen of one cell so far."""

    evidence: ComparisonStats
    started: float = field(default_factory=time.monotonic)
    warm: float = 0.0
    examples: int = 0
    regimes: Counter[str] = field(default_factory=Counter)
    witnessed: bool = False
    case: Any = None
    violation: CheckFailure | None = None
    failed_at: float = 0.0
    fault: str = ""
    ledger: Any = None
    """What crosses between devices in the case that is tried, where that is counted."""
    crossed: Any = None
    """The same of the failing case."""


def ledger_totals(ledger: Any) -> dict[str, Any]:
    """How much crossed between devices, and how often the host waited."""
    ways = sorted({(one.source, one.target) for one in ledger.transfers})
    bytes_of = {f"{source} -> {target}": ledger.bytes(source, target) for source, target in ways}
    return {"transfers": len(ledger.transfers), "syncs": len(ledger.syncs), "bytes": bytes_of}


def require_plain(case: Any) -> None:
    """Hold that a case prints as Python.

    Raises:
        TargetError: when a sample is anything else.
    """
    odd = next(((name, value) for name, value in case_fields(case).items() if not is_plain(value)), None)
    if odd:
        raise TargetError(
            "a sample is not plain Python",
            actual=f"{odd[0]}={odd[1]!r}"[:200],
            expected="numbers, text, None, and tuples, lists or dicts of them; make tensors in the collate",
            cause="inputs",
        )
