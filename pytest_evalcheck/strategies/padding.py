"""How rows of unequal length become a batch, and what the suite may vary about that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Sample = Any
Side = Literal["right", "left"]


@dataclass(frozen=True, kw_only=True)
class Padding:
    """Samples collated to widths of the suite's choice, with padding on a side of its choice."""

    widths: Callable[[Sequence[Sample]], tuple[int, ...]]
    """The least widths that hold these samples, one for each length that a sample has: (source, target) for a
    sequence-to-sequence model."""
    collate: Callable[[Sequence[Sample], Side, tuple[int, ...]], Any]
    """The batch of the samples at these widths."""
    sides: tuple[Side, ...] = ("right",)
    """The sides that the model can take. On the left, absolute positions need ``position_ids``."""
    lengths: Callable[[Sample], tuple[int, ...]] | None = None
    """How many positions of outputs are the sample's own, one number for each width; None where a sample has one
    output."""
    blank: Sample = None
    """A sample of nothing but padding, of which no label counts; None where there is no such thing."""

    def least(self, samples: Sequence[Sample]) -> Any:
        """The batch of the samples with no more padding than they need, on the first side."""
        return self.collate(samples, self.sides[0], self.widths(samples))


def padded(row: Sequence[Any], side: Side, width: int, fill: Any) -> list[Any]:
    """One row at a width."""
    space = [fill] * (width - len(row))
    return [*row, *space] if side == "right" else [*space, *row]
