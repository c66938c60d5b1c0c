"""A plot of variants: what they change against how much faster they are, as shapes at places."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_evalcheck.reports.variants import PLAIN, Comparison, Row

WIDTH, HEIGHT = 480, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 12, 40
_APART = 13.0
_AROUND = ((11, 4), (-11, 4), (11, -8), (-11, -8), (11, 16), (-11, 16), (0, -12), (0, 19))
"""Where a label may stand beside its point."""


@dataclass(frozen=True)
class Point:
    """One variant, with the ends of its interval where it has one."""

    number: int
    """What its label says: its place in the table."""
    row: Row
    x: float
    y: float
    low: float | None
    high: float | None
    label: tuple[float, float]


@dataclass(frozen=True)
class Tick:
    """A line across the plot and what it stands for."""

    place: float
    text: str
    strong: bool
    """Whether it is that of the plain configuration."""


@dataclass(frozen=True)
class Plot:
    """All that is drawn, in units of a box of `WIDTH` by `HEIGHT`."""

    points: tuple[Point, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    title: str
    left: float = _LEFT
    right: float = WIDTH - _RIGHT
    top: float = _TOP
    bottom: float = HEIGHT - _BOTTOM


def plot(made: Comparison) -> Plot | None:
    """The plot of a comparison; None where no variant has both a speed-up and a change."""
    drawn = [(place, row) for place, row in enumerate(made.rows) if row.name != PLAIN and _drawable(row)]
    if not drawn or not made.number:
        return None
    faster = [math.log2(row.speedup) for _, row in drawn if row.speedup]
    ends = [end for _, row in drawn for end in (row.change, row.low, row.high) if end is not None]
    x_low, x_high = _around(faster, least=1.02)
    y_low, y_high = _around(ends, least=1e-4)

    def right(value: float) -> float:
        return round(_LEFT + (value - x_low) / (x_high - x_low) * (WIDTH - _LEFT - _RIGHT), 1)

    def down(value: float) -> float:
        return round(_TOP + (y_high - value) / (y_high - y_low) * (HEIGHT - _TOP - _BOTTOM), 1)

    places = [(right(math.log2(row.speedup or 1)), down(row.change or 0)) for _, row in drawn]
    points = [
        Point(
            place,
            row,
            *at,
            None if row.low is None else down(row.low),
            None if row.high is None else down(row.high),
            label,
        )
        for (place, row), at, label in zip(drawn, places, _labels(places), strict=True)
    ]
    return Plot(
        tuple(points),
        tuple(Tick(right(power), _ratio(power), power == 0) for power in _powers(x_low, x_high)),
        tuple(Tick(down(value), f"{value:+.4g}" if value else "0", value == 0) for value in _steps(y_low, y_high)),
        f"change of {made.number} against speed-up of {len(points)} variants",
    )


def _drawable(row: Row) -> bool:
    return row.speedup is not None and row.speedup > 0 and row.change is not None


def _around(values: Iterable[float], *, least: float) -> tuple[float, float]:
    """A range that holds the values and 0, with some room at both ends."""
    low, high = min(0.0, *values), max(0.0, *values)
    room = max(0.12 * (high - low), least)
    return low - room, high + room


def _powers(low: float, high: float) -> list[int]:
    found = list(range(math.ceil(low), math.floor(high) + 1))
    step = max(1, math.ceil(len(found) / 7))
    return [power for power in found if power % step == 0]


def _ratio(power: int) -> str:
    return f"{2**power}x" if power >= 0 else f"1/{2**-power}x"


def _steps(low: float, high: float) -> list[float]:
    """Round numbers between two ends, four to eight of them, 0 among them."""
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= rough)
    return [round(place * step, 12) for place in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _labels(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """A place for the label of each point, away from all points and from the labels before it."""
    taken: list[tuple[float, float]] = []
    for x, y in points:
        free = [
            (x + right, y + down)
            for right, down in _AROUND
            if all(math.dist((x + right, y + down - 4), other) >= _APART * 0.8 for other in points)
            and all(math.dist((x + right, y + down), other) >= _APART for other in taken)
            and _LEFT < x + right < WIDTH - _RIGHT
            and _TOP + 8 < y + down < HEIGHT - _BOTTOM
        ]
        taken.append(free[0] if free else (x + 11, y + 4))
    return [(round(x, 1), round(y, 1)) for x, y in taken]
