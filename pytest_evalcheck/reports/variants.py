"""What the variants of loops cost and what they change, as the views show it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evalcheck.reports.groups import ordered
from pytest_evalcheck.reports.results import Report

PLAIN = "plain"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One configuration. What was not measured or not judged is None."""

    name: str
    samples: int
    speed: float | None
    """In samples a second: that of the plain configuration of the comparison times ``speedup``."""
    speedup: float | None
    memory: float | None
    """In bytes, at the peak."""
    memory_ratio: float | None
    drift: float | None
    """The most that one of its numbers moved, relative to its plain value, or to 1 where that is smaller."""
    number: str = ""
    """What ``change`` is about: the number of its budget, or one of the loop's."""
    change: float | None = None
    low: float | None = None
    high: float | None = None
    budget: float | None = None
    verdict: str = ""

    @property
    def said(self) -> str:
        """What became of its numbers: ``beyond its budget of 0.005: accuracy -0.05 (-0.085 to -0.029)``."""
        if self.budget is None:
            return "" if self.drift is None else f"moved by {self.drift:.1e}" if self.drift else "the same"
        between = "" if self.low is None or self.high is None else f" ({self.low:+.2g} to {self.high:+.2g})"
        change = "" if self.change is None else f" {self.change:+.2g}"
        how = {"undecided": "undecided about"}.get(self.verdict, self.verdict)
        return f"{how} its budget of {self.budget:g}: {self.number}{change}{between}"


@dataclass(frozen=True)
class Comparison:
    """The configurations of one target on one device, the plain one first."""

    target: str
    device: str
    number: str
    """What all changes of a plot are about; empty where the loop gives no number that all of them have."""
    rows: tuple[Row, ...]

    @property
    def samples(self) -> str:
        """How many samples were evaluated in every round."""
        found = sorted({row.samples for row in self.rows})
        return f"{found[0]} samples" if len(found) == 1 else f"{found[0]} to {found[-1]} samples"


def comparisons(report: Report) -> list[Comparison]:
    """What was measured of variants, by target and device."""
    found: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for cell in ordered(report.cells):
        for row in cell.variants:
            name = row.get("name")
            if isinstance(name, str):
                found.setdefault((cell.target, cell.device), {}).setdefault(name, row)
    return [made for where, rows in found.items() if len((made := _comparison(where, rows)).rows) > 1]


def _comparison(where: tuple[str, str], rows: Mapping[str, Mapping[str, Any]]) -> Comparison:
    plain = rows.get(PLAIN, {})
    numbers = _numbers(plain)
    held = [str(row["number"]).partition(" where ")[0] for row in rows.values() if row.get("number")]
    number = next((name for name in (*held, *numbers) if name in numbers), "")
    order = sorted(rows, key=lambda name: name != PLAIN)
    return Comparison(*where, number, tuple(_row(name, rows[name], number, plain) for name in order))


def _row(name: str, row: Mapping[str, Any], number: str, beside: Mapping[str, Any]) -> Row:
    own, plain = _numbers(row), _numbers(beside)
    change = _finite(row.get("change"))
    if change is None and number in own:
        change = own[number] - plain[number]
    samples = _finite(row.get("samples"))
    figures = {key: _finite(row.get(key)) for key in _FIGURES}
    pace_of_plain = _finite(beside.get("speed"))
    if figures["speedup"] is not None and pace_of_plain is not None:  # its own cell may have met another load
        figures["speed"] = figures["speedup"] * pace_of_plain
    return Row(
        name=name,
        samples=int(samples or 0),
        number=str(row.get("number") or number),
        change=change,
        verdict=str(row.get("verdict") or ""),
        **figures,
    )


_FIGURES = ("speed", "speedup", "memory", "memory_ratio", "drift", "low", "high", "budget")


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    given = row.get("numbers")
    found = given.items() if isinstance(given, Mapping) else ()
    return {str(name): number for name, value in found if (number := _finite(value)) is not None}


def _finite(value: Any) -> float | None:
    right = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if right else None


def size(count: float | None) -> str:
    """``1.5 MiB``; a dash where nothing was measured."""
    if count is None:
        return "-"
    for unit in ("B", "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def times(ratio: float | None) -> str:
    """``1.25x``; a dash where nothing was measured."""
    return "-" if ratio is None else f"{ratio:.3g}x" if ratio >= 10 else f"{ratio:.2f}x"


def pace(speed: float | None) -> str:
    """Samples a second, in three digits."""
    return "-" if speed is None else f"{speed:,.0f}" if speed >= 100 else f"{speed:.3g}"


def cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The rows as texts: name, samples a second, speed-up, memory, its ratio, and what became of the numbers."""
    return [
        (row.name, pace(row.speed), times(row.speedup), size(row.memory), times(row.memory_ratio), row.said)
        if row.name != PLAIN
        else (row.name, pace(row.speed), "", size(row.memory), "", "")
        for row in rows
    ]


HEADS = ("configuration", "samples/s", "speed-up", "memory", "of plain", "numbers")
