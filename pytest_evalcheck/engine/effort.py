"""Effort: numbers of cases and seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hypothesis import settings

Name = Literal["quick", "normal", "thorough"]


@dataclass(frozen=True)
class Effort:
    """Cases a cell, relative to the Hypothesis profile in force. No verdict depends on the seconds."""

    share: float
    shrink_seconds: float
    """After this time the smallest failing case so far is reported."""
    measuring: float
    """Seconds in which the variants of a cell may be measured, all of them together."""

    def examples(self, wanted: int | None = None) -> int:
        """The number of cases: ``wanted`` is what a check asks for at normal effort, of 25 by default."""
        usual = settings.default.max_examples  # type: ignore[union-attr]
        return max(min(4, wanted or 4), round(usual * self.share * (wanted or 25) / 25))


EFFORTS: dict[str, Effort] = {
    "quick": Effort(share=0.1, shrink_seconds=5, measuring=1 / 3),
    "normal": Effort(share=0.25, shrink_seconds=15, measuring=1),
    "thorough": Effort(share=2.0, shrink_seconds=60, measuring=10),
}
"""With Hypothesis' default profile of 100 examples: 10, 25 and 200 cases a cell."""
