"""The outcome of one check of one target on one device: the data that every report is a view of.

Nothing heavy is imported here, so that reports work wherever cells arrive: in the process that ran them, on the
controller of a distributed run, or from a JSON file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from pytest_evalcheck.reports.case_codec import from_plain_json, to_plain_json

Outcome = Literal["kept", "broken", "known", "not applicable", "not run"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What the smallest failing case of a cell showed. Data alone: every view renders it in its own way."""

    about: str
    """What was compared, or what went wrong."""
    expected: str = ""
    actual: str = ""
    detail: str = ""
    untestable: bool = False
    """Whether the target could not be built or used, so that the promise was not tried."""
    case: Mapping[str, Any] | None = None
    """The fields of the smallest failing case, as plain Python values; None where no case was drawn."""
    promise: str = ""
    usual_cause: str = ""
    fix: str = ""
    """What mends it: an import path, or what to do."""
    transfers: tuple[str, ...] = ()
    """One line for each kind of transfer between devices, and of host synchronisation, in that case."""
    traceback: str = ""
    """Of an error that was raised outside of the code under test, or by the check itself."""
    location: str = ""
    """The file and line of the target."""
    reproduce: str = ""
    """The command that replays the case."""

    def as_json(self) -> dict[str, Any]:
        """The failure as JSON types; `case` keeps tuples, bytes and non-finite numbers by tags."""
        case = None if self.case is None else {name: to_plain_json(value) for name, value in self.case.items()}
        return {**asdict(self), "transfers": list(self.transfers), "case": case}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Failure:
        """The failure that `as_json` wrote; keys that a newer version added are ignored."""
        known = {f.name for f in fields(cls)}
        own = {name: value for name, value in data.items() if name in known}
        case = own.get("case")
        own["case"] = None if case is None else {name: from_plain_json(value) for name, value in case.items()}
        return cls(**{**own, "transfers": tuple(own.get("transfers", ()))})


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of the matrix: target x check x device, with its outcome.

    ``seconds`` is the wall time of the whole cell, ``examples`` the number of cases that were tried,
    ``regimes`` how many of them reached each regime that the check names.
    """

    target: str
    """Where the target is and its name, as pytest writes it: ``evalcheck_lm.py::accuracy``."""
    kind: str
    check: str
    code: str
    device: str
    outcome: Outcome
    reason: str = ""
    """One line: what broke, why it is not applicable, why it did not run. Empty for a kept promise."""
    cause: str = ""
    """What failures of one root cause share, such as ``leak: default dtype``; empty where nothing is shared."""
    see: str = ""
    """The upstream report of a known failure, or empty when none was found."""
    seconds: float = 0.0
    examples: int = 0
    regimes: Mapping[str, int] = field(default_factory=dict)
    failure: Failure | None = None
    """What failed; of a broken and of a known cell alone."""
    ledger: Mapping[str, Any] = field(default_factory=dict)
    """What crossed between devices and where the host waited, on a simulated one: all of it for the smallest input of a
    failure, ``bytes`` by way and the number of ``transfers`` and ``syncs`` of the last case else."""
    variants: Sequence[Mapping[str, Any]] = ()
    """What the plain configuration of a loop and each of its variants cost, measured side by side and judged by nobody:
    ``name``, ``samples``, ``rounds``, ``speed`` in samples a second, ``speedup``, ``memory`` in bytes, its
    ``memory_ratio``, ``numbers`` and ``drift``; of a variant with a budget also the ``number`` that it is about, the
    ``change`` of it between ``low`` and ``high``, ``budget`` and ``verdict``."""
    file: str = ""
    line: int = 0

    @property
    def unreached(self) -> tuple[str, ...]:
        """The regimes that no case reached, so that nothing is claimed about them."""
        return tuple(name for name, count in self.regimes.items() if not count) if self.examples else ()

    @property
    def screen(self) -> str:
        """The failure as text for a terminal; empty where nothing failed."""
        from pytest_evalcheck.reports.failure_text import format_failure

        return format_failure(self)

    @property
    def reproduce(self) -> str:
        """The command that replays the failure; empty where nothing failed."""
        return self.failure.reproduce if self.failure else ""

    @property
    def executed(self) -> bool:
        """Whether the promise was really tried."""
        return self.outcome in ("kept", "broken", "known")

    def as_json(self) -> dict[str, Any]:
        """A plain dict of this cell, with its unreached regimes, ready for ``json.dumps``."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {
            "regimes": dict(self.regimes),
            "ledger": dict(self.ledger),
            "variants": [dict(v) for v in self.variants],
            "failure": self.failure.as_json() if self.failure else None,
        }
        return {**own, **plain, "unreached": list(self.unreached)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Cell:
        """The cell that `as_json` wrote; keys that a newer version added are ignored."""
        known = {f.name for f in fields(cls)}
        own = {name: value for name, value in data.items() if name in known}
        failure = own.get("failure")
        own["failure"] = Failure.from_json(failure) if failure is not None else None
        return cls(**{**own, "variants": tuple(dict(row) for row in data.get("variants", ()))})


@dataclass(frozen=True)
class Report:
    """The cells of one run, in the order they ran."""

    cells: tuple[Cell, ...]

    def __init__(self, cells: Iterable[Cell] = ()) -> None:
        object.__setattr__(self, "cells", tuple(cells))

    def count(self, outcome: Outcome) -> int:
        """How many cells ended this way."""
        return sum(cell.outcome == outcome for cell in self.cells)

    def of(self, outcome: Outcome) -> tuple[Cell, ...]:
        """The cells that ended this way."""
        return tuple(cell for cell in self.cells if cell.outcome == outcome)

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that have a cell, in order of appearance."""
        return tuple(dict.fromkeys(cell.target for cell in self.cells))

    @property
    def untried(self) -> tuple[str, ...]:
        """The targets of which no promise was tried: an error, because their green would mean nothing.

        A target whose requirements are not installed is not among them: it says so in its cells.
        """
        tried = {cell.target for cell in self.cells if cell.executed or cell.outcome == "not run"}
        return tuple(target for target in self.targets if target not in tried)

    @property
    def ok(self) -> bool:
        """Whether nothing is broken and at least one promise was tried."""
        return not self.count("broken") and not self.untried and any(cell.executed for cell in self.cells)

    @property
    def denominator(self) -> str:
        """``12 targets, 214 promises: 198 kept, 9 broken, 5 known, 2 not applicable, 0 not run``."""
        counts = ", ".join(f"{self.count(outcome)} {outcome}" for outcome in OUTCOMES)
        return f"{_plural(len(self.targets), 'target')}, {_plural(len(self.cells), 'promise')}: {counts}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
