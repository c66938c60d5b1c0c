"""Result of each item of a gallery pair in torchmetrics' harness, one JSON line an item.

Lines outlive a process that an item ends or hangs, so the run can go on after it in a new one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

Role = Literal["correct", "planted"]
Outcome = Literal["passed", "failed", "skipped", "died"]


@dataclass(frozen=True, kw_only=True)
class Record:
    """One item. ``died`` is written before it starts, and stands if it never ends."""

    item: str
    pair: int
    role: Role
    outcome: Outcome
    why: str = ""

    @property
    def twin(self) -> str:
        """The same item of the correct metric."""
        return self.item.replace(f"-{self.role}-", "-correct-")


@dataclass(frozen=True)
class Verdict:
    """The judgement of the harness on one pair."""

    caught: bool
    runnable: bool
    """True if it passes the correct twin on at least one class test; without that a red item means nothing."""
    why: str


def append(path: Path, record: Record) -> None:
    """Add one line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(record)) + "\n")


def read(path: Path) -> list[Record]:
    """The last word on every item, in the order in which they started."""
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    last = {record.item: record for record in (Record(**json.loads(line)) for line in lines)}
    return list(last.values())


def verdict(records: Sequence[Record], pair: int) -> Verdict:
    """Return whether an item is red on the planted bug and green on its correct twin."""
    ours = [record for record in records if record.pair == pair]
    green = {record.item for record in ours if record.role == "correct" and record.outcome == "passed"}
    if not any(item.startswith("test_class") for item in green):
        refused = next(
            (r.why for r in ours if r.role == "correct" and r.outcome in ("failed", "died")), "it has no item"
        )
        return Verdict(caught=False, runnable=False, why=refused)
    red = [r for r in ours if r.role == "planted" and r.outcome in ("failed", "died") and r.twin in green]
    if not red:
        return Verdict(caught=False, runnable=True, why=f"{len(green)} items green on both")
    return Verdict(caught=True, runnable=True, why=f"{red[0].item.partition('[')[0]}: {red[0].why}")
