"""The outcome of one check of one target on one device: the data that every report is a view of.

This module imports nothing heavy, so that reports work wherever cells arrive: in the process that ran them, on the
controller of a distributed run, or from a JSON file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from pytest_evalcheck.reports.case_codec import from_plain_json, to_plain_json

Outcome = Literal["kept", "broken", "known", "not applicable", "not run"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The result of the smallest failing case of a cell. Data alone: every view renders it in its own way."""

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
    """How to fix it: an import path, or an instruction."""
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
        return {**vars(self), "transfers": list(self.transfers), "case": case}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Failure:
        """The failure that `as_json` wrote; unknown keys are ignored.

        Raises:
            TypeError: when a required key is missing.
            ValueError: when a value of the case has an unknown tag.
        """
        own = _known(cls, data)
        case = own.get("case")
        own["case"] = None if case is None else {name: from_plain_json(value) for name, value in case.items()}
        return cls(**{**own, "transfers": tuple(own.get("transfers", ()))})


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of the matrix: target x check x device, with its outcome."""

    target: str
    """The file of the target and its name, as pytest writes it: ``evalcheck_lm.py::accuracy``."""
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
    """The upstream report of a known failure, or empty when there is none."""
    seconds: float = 0.0
    """The wall time of the whole cell."""
    examples: int = 0
    """The number of cases that were tried."""
    regimes: Mapping[str, int] = field(default_factory=dict)
    """How many of the cases reached each regime that the check names."""
    failure: Failure | None = None
    """The failure of a broken or of a known cell; None elsewhere."""
    ledger: Mapping[str, Any] = field(default_factory=dict)
    """Transfers between devices and host synchronisations, on a simulated device: all of them for the smallest input
    of a failure, else the numbers of ``transfers`` and ``syncs`` and the ``bytes`` by direction, of the last case."""
    variants: Sequence[Mapping[str, Any]] = ()
    """The cost of the plain configuration of a loop and of each of its variants, measured in turns and not judged:
    ``name``, ``samples``, ``rounds``, ``speed`` in samples per second, ``speedup``, ``memory`` in bytes, its
    ``memory_ratio``, ``numbers`` and ``drift``. A variant with a budget also has the ``number`` of the budget, its
    ``change`` between ``low`` and ``high``, ``budget`` and ``verdict``."""
    file: str = ""
    line: int = 0

    @property
    def unreached(self) -> tuple[str, ...]:
        """The regimes that no case reached, so that the cell shows nothing about them."""
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
        """Whether the promise was tried."""
        return self.outcome in ("kept", "broken", "known")

    def as_json(self) -> dict[str, Any]:
        """A plain dict of this cell, with its unreached regimes, ready for ``json.dumps``."""
        plain = {
            "regimes": dict(self.regimes),
            "ledger": dict(self.ledger),
            "variants": [dict(row) for row in self.variants],
            "failure": self.failure.as_json() if self.failure else None,
        }
        return {**vars(self), **plain, "unreached": list(self.unreached)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Cell:
        """The cell that `as_json` wrote; unknown keys are ignored.

        Raises:
            TypeError: when a required key is missing.
            ValueError: when a value of the failing case has an unknown tag.
        """
        own = _known(cls, data)
        failure = own.get("failure")
        own["failure"] = Failure.from_json(failure) if failure is not None else None
        return cls(**{**own, "variants": tuple(dict(row) for row in data.get("variants", ()))})


def _known(cls: type, data: Mapping[str, Any]) -> dict[str, Any]:
    return {f.name: data[f.name] for f in fields(cls) if f.name in data}


@dataclass(frozen=True)
class Report:
    """The cells of one run, in the order they ran."""

    cells: tuple[Cell, ...]

    def __init__(self, cells: Iterable[Cell] = ()) -> None:
        object.__setattr__(self, "cells", tuple(cells))

    def count(self, outcome: Outcome) -> int:
        """How many cells have this outcome."""
        return len(self.of(outcome))

    def of(self, outcome: Outcome) -> tuple[Cell, ...]:
        """The cells with this outcome."""
        return tuple(cell for cell in self.cells if cell.outcome == outcome)

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that have a cell, in order of appearance."""
        return tuple(dict.fromkeys(cell.target for cell in self.cells))

    @property
    def untried(self) -> tuple[str, ...]:
        """The targets of which no promise was tried: an error, because their green would mean nothing.

        A target whose requirements are not installed is not among them: its cells report that.
        """
        tried = {cell.target for cell in self.cells if cell.executed or cell.outcome == "not run"}
        return tuple(target for target in self.targets if target not in tried)

    @property
    def ok(self) -> bool:
        """Whether nothing is broken and at least one promise was tried."""
        return not self.count("broken") and not self.untried and any(cell.executed for cell in self.cells)

    @property
    def denominator(self) -> str:
        """``12 targets, 214 cells: 198 kept, 9 broken, 5 known, 2 not applicable, 0 not run``."""
        counts = ", ".join(f"{self.count(outcome)} {outcome}" for outcome in OUTCOMES)
        return f"{plural(len(self.targets), 'target')}, {plural(len(self.cells), 'cell')}: {counts}"


def plural(count: int, noun: str) -> str:
    """``1 cell``, ``2 cells``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
