"""Requests of unequal length in full batches, and their results in the order of the requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Generic, TypeVar

from pytest_evalcheck.fixes.caches.errors import CacheError, require_size

Row = TypeVar("Row")
Result = TypeVar("Result")


@dataclass(frozen=True)
class BatchPlan:
    """Which request is in which batch: every request once, every batch but the last full."""

    batches: tuple[tuple[int, ...], ...]

    def restore(self, results: Iterable[Sequence[Result]]) -> list[Result]:
        """Give the results of the batches, in the order of the plan, back in the order of the requests.

        ``results`` has one sequence a batch with one entry a row. `CacheError` where a batch or a row is missing
        or too many.
        """
        placed: dict[int, Result] = {}
        given = list(results)
        if len(given) != len(self.batches):
            raise CacheError(f"results: expected those of {len(self.batches)} batches, got {len(given)}")
        for number, (batch, values) in enumerate(zip(self.batches, given, strict=True)):
            if len(values) != len(batch):
                raise CacheError(f"results of batch {number}: expected {len(batch)} rows, got {len(values)}")
            placed.update(zip(batch, values, strict=True))
        return [placed[index] for index in range(len(placed))]


def plan_batches(lengths: Iterable[int], capacity: int) -> BatchPlan:
    """Pack requests of these lengths (in tokens) into batches of ``capacity`` rows.

    The longest come first: what does not fit into memory shows at once, and little of a batch is padding. Requests
    of one length keep their order. `CacheError` for a capacity or a length that is none.
    """
    require_size(capacity, "capacity")
    measured = list(lengths)
    for index, length in enumerate(measured):
        if not isinstance(length, int) or isinstance(length, bool) or length < 0:
            raise CacheError(f"lengths[{index}]: expected a whole number of tokens, got {length!r}")
    order = sorted(range(len(measured)), key=lambda index: -measured[index])
    starts = range(0, len(order), capacity)
    return BatchPlan(tuple(tuple(order[start : start + capacity]) for start in starts))


@dataclass(frozen=True)
class Expansion(Generic[Row]):
    """The rows of multiple-choice questions, one a choice, and how many each question has."""

    rows: list[Row]
    counts: tuple[int, ...]

    def regroup(self, results: Sequence[Result]) -> list[list[Result]]:
        """Give one list a question, with one result a choice; `CacheError` where their number is another."""
        if len(results) != len(self.rows):
            raise CacheError(f"results: expected one for each of {len(self.rows)} rows, got {len(results)}")
        ends = zip(accumulate(self.counts), self.counts, strict=True)
        return [list(results[end - count : end]) for end, count in ends]


def expand_choices(contexts: Sequence[Any], choices: Sequence[Sequence[Any]]) -> Expansion[Any]:
    """Make one row of every context and each of its choices, ``context + choice``; their numbers may differ.

    Rows x choices is more than a batch has room for; as rows of a plan they fill batches across questions::

        expansion = expand_choices(contexts, choices)
        plan = plan_batches(map(len, expansion.rows), capacity)
        scores = plan.restore(score([expansion.rows[index] for index in batch]) for batch in plan.batches)
        per_question = expansion.regroup(scores)
    """
    if len(contexts) != len(choices):
        raise CacheError(f"choices: expected those of {len(contexts)} contexts, got {len(choices)}")
    rows = [context + choice for context, each in zip(contexts, choices, strict=True) for choice in each]
    return Expansion(rows, tuple(map(len, choices)))
