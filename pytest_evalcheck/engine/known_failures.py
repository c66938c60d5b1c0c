"""Known failures of one cell: which failures they cover, which of them were seen, and which are stale."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from pytest_evalcheck import upstream
from pytest_evalcheck.engine.cell_spec import CellSpec
from pytest_evalcheck.engine.factory import TargetFactory
from pytest_evalcheck.expectations.comparison import Raised, Tolerance, close
from pytest_evalcheck.expectations.failures import CheckFailure, TargetError
from pytest_evalcheck.expectations.origin import raised_by_check
from pytest_evalcheck.expectations.signature import signature_of
from pytest_evalcheck.fixes.patches.applying import is_mended
from pytest_evalcheck.reports.results import Outcome
from pytest_evalcheck.targets.target import KnownFailure

STALE = "stale known failure"
"""The cause of a cell whose known failure does not fail."""


class StaleEntry(TargetError):
    """A known failure that does not fail."""

    def __init__(self, code: str, entry: KnownFailure, seen: str) -> None:
        self.entry = entry
        super().__init__(
            f"{code} is listed as a known failure, but {seen}",
            detail=f"the entry says: {entry.reason}\nTake the entry out of {entry.listed or 'known_failures'}.",
            cause=STALE,
        )


@dataclass(frozen=True)
class Finding:
    """A failure, the case that shows it, and its signature."""

    failure: CheckFailure
    case: Any
    signature: str
    ledger: Any = None
    """The transfers between devices in that case, on a simulated device."""
    known: KnownFailure | None = None
    """The entry that covers it; None for a failure that is not known."""

    @property
    def is_error(self) -> bool:
        """Return whether it is about an error of the code under test, and not about values that differ."""
        if self.failure.untestable or not self.failure.origin:
            return self.failure.untestable
        actual = self.failure.compared.actual if self.failure.compared else None
        return not (isinstance(actual, Raised) and raised_by_check(actual.error))

    @property
    def size(self) -> int:
        """The length of the case."""
        return len(repr(self.case))


class KnownFailures:
    """The known failures of one cell: entries of its target and of the baseline, and upstream faults."""

    def __init__(self, spec: CellSpec, factory: TargetFactory) -> None:
        self.findings: dict[str, Finding] = {}
        """The failures that are known, by signature."""
        self._spec, self._factory = spec, factory
        self._confirmed: list[KnownFailure] = []

    @property
    def pinned(self) -> list[tuple[KnownFailure, Any]]:
        """The entries that name a case, each with its case."""
        return [
            (entry, self._spec.case(entry.example, f"the case of {_name(entry)}"))
            for entry in self._spec.known
            if entry.example is not None
        ]

    @property
    def entries_out_of_range(self) -> list[str]:
        """The reasons why entries do not apply to the installed versions, a clause each."""
        return [entry.out_of_range for entry in self._spec.entries if entry.out_of_range]

    @property
    def reason(self) -> str:
        """The reasons of the entries that cover the failures, each once."""
        entries = [finding.known for finding in self.findings.values() if finding.known]
        return "; ".join(dict.fromkeys(map(_reason, entries)))

    def confirm(self, entry: KnownFailure, finding: Finding) -> Finding | None:
        """Record the failure of the case of an entry; return what to report where the entry says something else."""
        failure = finding.failure
        if failure.untestable and failure.cause == "check":
            return self.finding(
                TargetError(
                    f"the case of {_name(entry)} cannot be tried",
                    actual=failure.actual,
                    expected=f"a case of {self._spec.check.code}, as a failure shows it",
                    cause="replay",
                ),
                finding.case,
                finding.ledger,
            )
        if failure.untestable:
            return finding
        if entry.signature and entry.signature != finding.signature:
            about = f"{entry.listed or 'The known failure'} has another signature: {entry.signature}"
            failure.detail = "\n".join(filter(None, [failure.detail, about]))
            return finding
        if entry.values and not values_agree(entry.values, (failure.expected, failure.actual)):
            was = " and ".join(
                f"{name} {text}" for name, text in zip(("expected", "actual"), entry.values, strict=True)
            )
            about = f"Another failure than {entry.listed or 'the known one'}, where this case has {was}"
            failure.detail = "\n".join(filter(None, [about, failure.detail]))
            return finding
        self.findings.setdefault(finding.signature, replace(finding, known=entry))
        self._confirmed.append(entry)
        return None

    def is_of_another(self, entry: KnownFailure, finding: Finding) -> bool:
        """Return whether the case of an entry shows what another one covers, so that its own failure may come later."""
        if entry.signature == finding.signature or (entry.fault and entry.fault.shows(finding.signature)):
            return False
        return self.should_pass_over(finding) if entry.signature else finding.signature in self.findings

    def finding(self, failure: CheckFailure, case: Any, ledger: Any = None) -> Finding:
        """Return a failure with the case that shows it."""
        return Finding(failure, case, signature_of(self._spec.check.code, failure), ledger)

    def should_pass_over(self, finding: Finding) -> bool:
        """Return whether a failure is known.

        The pinned case of an entry has shown it, its upstream fault has this signature, or it names no case.
        """
        signature = finding.signature
        if signature in self.findings:
            return True
        entry = self._entry(signature)
        if entry is None:
            return False
        self.findings[signature] = replace(finding, known=entry)
        if entry.example is None:
            self._confirmed.append(entry)
        return True

    def _entry(self, signature: str) -> KnownFailure | None:
        for entry in self._spec.known:
            if entry.signature == signature or (entry.fault and entry.fault.shows(signature)):
                return entry
        for entry in self._spec.known:
            if entry.example is None and not (entry.upstream or entry.signature) and entry not in self._confirmed:
                return entry
        strict, thing = self._spec.strict_versions, self._factory.adapted
        fault = upstream.match(signature, thing, self._factory.changed, is_mended, strict=strict)
        return KnownFailure(upstream=fault.id) if fault else None

    def stale(self, outcome: Outcome, reason: str = "") -> StaleEntry | None:
        """Return the error of the first entry that does not fail in a cell of this outcome; None where there is none.

        A replay tries one case, so that it cannot say so. An unverified fault may be gone in the installed release.
        """
        own = [entry for entry in self._spec.known if not entry.unverified]
        if outcome == "known":
            entries = [entry for entry in own if entry not in self._confirmed]
            seen = "another entry covers all that fails"
        else:
            entries = own
            seen = "the check passed" if outcome == "passed" else f"the check is not applicable ({reason})"
        return self.stale_entry(entries[0], seen) if entries and self._spec.replay is None else None

    def stale_entry(self, entry: KnownFailure, seen: str) -> StaleEntry:
        """Return the error of an entry that does not fail."""
        return StaleEntry(self._spec.check.code, entry, seen)


def values_agree(texts: Iterable[str], others: Iterable[str]) -> bool:
    """Return whether texts are the same up to their numbers, and these nearly: machines and releases round apart."""
    pairs = [(a, b) for one in zip(texts, others, strict=True) for a, b in zip_longest(*map(_NUMBER.split, one))]
    return all(a == b or (_is_number(a) and _is_number(b) and close(float(a), float(b), _NEARLY)) for a, b in pairs)


def _is_number(text: str | None) -> bool:
    return text is not None and _NUMBER.fullmatch(text) is not None


_NUMBER = re.compile(r"([-+]?\d+\.?\d*(?:e[-+]?\d+)?)")
_NEARLY = Tolerance(rtol=1e-2, atol=1e-4)


def _reason(entry: KnownFailure) -> str:
    if not entry.upstream:
        return entry.reason
    return f"known upstream{f', {entry.unverified}' if entry.unverified else ''}: {entry.reason}"


def _name(entry: KnownFailure) -> str:
    return entry.listed or "the known failure"
