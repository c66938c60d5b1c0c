"""What became of one promise of one target on one device: the data that every report is a view of.

This module imports nothing of ours and nothing heavy, so that reports work wherever cells arrive:
in the process that ran them, on the controller of a distributed run, or from a JSON file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

Outcome = Literal["kept", "broken", "known", "not applicable", "not run"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


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
    case: str = ""
    """The smallest input that was found, as valid Python."""
    screen: str = ""
    """The failure as the terminal shows it."""
    reproduce: str = ""
    """The command that replays the failure."""
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
        }
        return {**own, **plain, "unreached": list(self.unreached)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Cell:
        """The cell that `as_json` wrote; keys that a newer version added are passed over."""
        known = {f.name for f in fields(cls)}
        rows = tuple(dict(row) for row in data.get("variants", ()))
        return cls(**{**{k: v for k, v in data.items() if k in known}, "variants": rows})


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
