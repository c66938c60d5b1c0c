"""The cost of the variants of loops and the change of their numbers, as the views show it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evalcheck.reports.groups import ordered
from pytest_evalcheck.reports.results import Report

PLAIN = "plain"
HEADINGS = ("configuration", "samples/s", "speed-up", "memory", "of plain", "numbers")


@dataclass(frozen=True)
class Comparison:
    """The configurations of one target on one device, the plain one first."""

    target: str
    device: str
    samples: str
    """The number of samples per round: ``64 samples``."""
    rows: tuple[tuple[str, ...], ...]
    """One text per heading: name, samples per second, speed-up, memory, its ratio, and the change of the numbers."""
    verdicts: tuple[str, ...]
    """Per row: ``within``, ``beyond``, ``undecided``, or empty without a budget."""


def comparisons(report: Report) -> list[Comparison]:
    """Return the measurements of variants, by target and device."""
    by_target: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for cell in ordered(report.cells):
        for row in cell.variants:
            name = row.get("name")
            if isinstance(name, str):
                by_target.setdefault((cell.target, cell.device), {}).setdefault(name, row)
    return [_comparison(*where, list(rows.values())) for where, rows in by_target.items() if len(rows) > 1]


def _comparison(target: str, device: str, rows: Sequence[Mapping[str, Any]]) -> Comparison:
    rows = sorted(rows, key=lambda row: row["name"] != PLAIN)
    counts = sorted({int(_finite(row.get("samples")) or 0) for row in rows})
    samples = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    plain_rate = _finite(rows[0].get("speed")) if rows[0]["name"] == PLAIN else None
    return Comparison(
        target,
        device,
        f"{samples} samples",
        tuple(_texts(row, plain_rate) for row in rows),
        tuple(str(row.get("verdict") or "") for row in rows),
    )


def _texts(row: Mapping[str, Any], plain_rate: float | None) -> tuple[str, ...]:
    name, memory = row["name"], format_bytes(_finite(row.get("memory")))
    if name == PLAIN:
        return name, format_rate(plain_rate), "", memory, "", ""
    rate, speedup = _finite(row.get("speed")), _finite(row.get("speedup"))
    if speedup is not None and plain_rate is not None:  # its own cell may have run under another load
        rate = speedup * plain_rate
    ratio = format_ratio(_finite(row.get("memory_ratio")))
    return name, format_rate(rate), format_ratio(speedup), memory, ratio, _change(row)


def _change(row: Mapping[str, Any]) -> str:
    """The change of the numbers: ``beyond its budget of 0.005: accuracy -0.05 (-0.085 to -0.029)``."""
    budget, drift, change, low, high = (_finite(row.get(key)) for key in ("budget", "drift", "change", "low", "high"))
    if budget is None:
        return "" if drift is None else f"moved by {drift:.1e}" if drift else "the same"
    interval = "" if low is None or high is None else f" ({low:+.2g} to {high:+.2g})"
    verdict = str(row.get("verdict") or "")
    verdict = "undecided about" if verdict == "undecided" else verdict
    shown = "" if change is None else f" {change:+.2g}"
    return f"{verdict} its budget of {budget:g}: {row.get('number') or ''}{shown}{interval}"


def _finite(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None


def format_bytes(count: float | None) -> str:
    """``1.5 MiB``; a dash where nothing was measured."""
    if count is None:
        return "-"
    for unit in ("B", "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def format_ratio(ratio: float | None) -> str:
    """``1.25x``; a dash where nothing was measured."""
    return "-" if ratio is None else f"{ratio:.3g}x" if ratio >= 10 else f"{ratio:.2f}x"


def format_rate(rate: float | None) -> str:
    """Samples per second, in three digits; a dash where nothing was measured."""
    return "-" if rate is None else f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
