"""Who is right where the simulation and FakeTensor differ: rows of `fidelity_table.md`, each with its reason."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterator
from pathlib import Path

from fidelity_references import Verdict
from fidelity_samples import Placement

TABLE = Path(__file__).parent / "fidelity_table.md"
COLUMNS = ("group", "op", "at", "placement", "ours", "FakeTensor", "right", "reason")
OUTCOMES = {"accepted", "refused", "undecided"}


@dataclasses.dataclass(frozen=True)
class Row:
    """One group of decisions. Every column but the last two is a pattern, or several with `;` between them."""

    group: str
    op: str
    at: str  # the operator of the dispatcher at which the one that refuses does
    placement: str
    ours: str
    fake: str
    right: str  # accepted, refused or ambiguous
    reason: str

    def matches_call(self, op: str, placement: Placement) -> bool:
        """Return whether it speaks of such a call, whatever comes of it."""
        return _any(self.op, op) and _any(self.placement, str(placement))

    def holds(self, op: str, placement: Placement, ours: Verdict, fake: Verdict) -> bool:
        at = ours.at if ours.kind == "refused" or fake.kind != "refused" else fake.at
        seen = (op, at, str(placement), ours.kind, fake.kind)
        wanted = (self.op, self.at, self.placement, self.ours, self.fake)
        return all(_any(patterns, value) for patterns, value in zip(wanted, seen, strict=True))


def rows(path: Path = TABLE) -> list[Row]:
    """The rows of the table. Raises ValueError, with the line, where one is not of the form."""
    return list(_rows(path))


def find(table: list[Row], op: str, placement: Placement, ours: Verdict, fake: Verdict) -> Row | None:
    """The first row that a decision belongs to."""
    return next((row for row in table if row.holds(op, placement, ours, fake)), None)


def _any(patterns: str, value: str) -> bool:
    return any(fnmatch.fnmatchcase(value, each.strip()) for each in patterns.split(";"))


def _rows(path: Path) -> Iterator[Row]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        cells = [each.strip().replace("`", "") for each in line.split("|")[1:-1]]
        if not cells or cells[0] in ("", COLUMNS[0]) or set(cells[0]) <= {"-", ":"}:
            continue
        if len(cells) != len(COLUMNS):
            raise ValueError(f"{path.name}:{number}: {len(cells)} columns, expected {', '.join(COLUMNS)}")
        row = Row(*cells)
        if row.right not in ("accepted", "refused", "ambiguous") or not row.reason:
            raise ValueError(f"{path.name}:{number}: right is {row.right!r}: expected accepted, refused or ambiguous")
        if not {each.strip() for each in f"{row.ours};{row.fake}".split(";")} - {"*"} <= OUTCOMES:
            raise ValueError(f"{path.name}:{number}: expected ours and FakeTensor to be among {sorted(OUTCOMES)}")
        yield row
