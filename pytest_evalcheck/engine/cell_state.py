"""Results of one cell so far. The runner writes them; the judge reads them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evalcheck.engine.known_failures import Finding, KnownFailures
from pytest_evalcheck.expectations.failures import CheckFailure, ComparisonStats, NotApplicable, TargetError
from pytest_evalcheck.reports.case_codec import case_fields, is_plain


class SearchOver(BaseException):
    """The time for shrinking is over; the smallest failing case so far is reported."""


@dataclass
class CellState:
    """Results of one cell so far."""

    stats: ComparisonStats
    known: KnownFailures
    seconds: float = 0.0
    """Wall time of the whole cell, once it has ended."""
    planned: int = 0
    """The least number of cases to try."""
    examples: int = 0
    conditions: Counter[str] = field(default_factory=Counter)
    """By condition, the cases that compared a value."""
    tried: Counter[str] = field(default_factory=Counter)
    """By condition, the cases that were tried, those included that the target refused."""
    passed_once: bool = False
    """At least one case passed."""
    found: Finding | None = None
    """The failure to report. Of two cases with the same signature the smaller one."""
    error: Finding | None = None
    """An error that a later case has shown, where a difference was found before; it is reported first."""
    beside: CheckFailure | None = None
    """The difference that was found before the error to report."""
    others: dict[str, str] = field(default_factory=dict)
    """By signature, what other cases show; the first one each."""
    other_versions: str = ""
    """For which other versions of its library the failure to report is recorded as an upstream fault, as a clause."""
    passed_over: NotApplicable | None = None
    """The reason why a case was not tried that the target does not offer."""
    absent: frozenset[str] = frozenset()
    """The conditions of such cases."""
    flaky: bool = False
    """The failing case passed another time."""
    failed_at: float = 0.0
    traceback: str = ""
    ledger: Any = None
    """Transfers in the case that was tried last, on a simulated device."""
    class_name: str = ""
    """The class of the object of a library that the target describes, or the function; empty for a record that its
    author has written."""
    takes_device: bool = True
    """False where what the target makes cannot be on a device, by a method or an argument."""
    undeclared: bool = False
    """Nobody has said what the code under test is: inference took it for a metric or a scorer by a trial."""
    own: str = ""
    """The class or the function under test that the file of the target defines; empty for one of a library."""
    place: tuple[str, int] | None = None
    """The file and line of that, of an inferred target; None for the place of the target."""
    given: tuple[str, ...] = ()
    """Arguments and result of an example call."""
    fault: CheckFailure | None = None
    """The error of a library in the example call; None where it gave a value."""
    running: Any = None
    """The case that was tried last."""
    limit: float = 0.0
    """The time limit in force, in seconds."""
    ended_by: BaseException | None = None
    """The error that ended the search; None where it came to its end."""

    def judge_first(self, error: Finding) -> None:
        """Report an error, and the difference that was found as what other cases show."""
        assert self.found is not None
        self.beside = self.found.failure
        self.others = {self.found.signature: self.beside.headline, **self.others}
        self.others.pop(error.signature, None)
        self.found = error

    def offered(self, conditions: tuple[str, ...]) -> tuple[str, ...]:
        """Return the conditions that the target offers, as far as it was seen."""
        return tuple(name for name in conditions if self.tried[name] or name not in self.absent)


def ledger_totals(ledger: Any) -> dict[str, Any]:
    """Return the numbers of transfers and of host synchronisations, and the bytes by direction."""
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
        raise not_plain(f"{odd[0]}={odd[1]!r}")


def not_plain(shown: str) -> TargetError:
    """The error for a sample that is shown here and does not print as Python."""
    return TargetError(
        "a sample is not plain Python",
        actual=re.sub(r" at 0x[0-9a-fA-F]+", "", shown)[:200],
        expected="numbers, text, None, and tuples, lists or dicts of them; make tensors in the collate",
        cause="inputs",
    )


def left_changed(changed: Sequence[str]) -> TargetError:
    """The error for what code under test has left changed in the process, a line each."""
    return TargetError(
        "the target left the process changed",
        actual=changed[0],
        expected="as it was found",
        detail="\n".join(changed[1:]),
        cause=f"leak: {changed[0].split(':')[0]}",
    )
