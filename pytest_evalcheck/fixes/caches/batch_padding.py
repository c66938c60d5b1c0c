"""Batches for caches of a fixed capacity: padding, packing into full batches, and the errors (EC303, EC305)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

Row = TypeVar("Row")
Result = TypeVar("Result")


class CacheError(ValueError):
    """A batch, a cache or a model that do not fit each other; the text says which, and what would fit."""


class UnsupportedModel(CacheError):
    """A model with layers, or a cache, of a kind that is not supported."""


def require_size(value: object, where: str) -> int:
    """Return a size of one or more; `CacheError` for anything else."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CacheError(f"{where}: expected a whole number of one or more, got {value!r}")
    return value


def require_rows(rows: int, capacity: int) -> None:
    """Raise `CacheError` for a batch without rows, and for more rows than the capacity."""
    if rows < 1:
        raise CacheError("batch: expected at least one row, got none")
    if rows > capacity:
        raise CacheError(
            f"batch: expected at most {capacity} rows, which is what the cache was made for, got {rows}; "
            "split it (plan_batches does), or make the cache larger"
        )


def require_context(length: int, context: int | None) -> None:
    """Raise `CacheError` for a cache that is longer than the context of its model."""
    if context is not None and length > context:
        raise CacheError(
            f"cache: expected at most {context} positions, which is the model's context, got {length}; "
            f"make it {context} long"
        )


def pad_batch(rows: Tensor, size: int, fill: int | float | bool) -> Tensor:
    """Pad a batch to a fixed size with rows of one value, such as a stop token.

    ``rows`` is (n, ...); the result is (size, ...), its first n rows those of ``rows``, the others ``fill``
    throughout. Pad ids with a stop token, so that the added rows stop at once, and an attention mask with 1, because
    rows whose mask is 0 throughout have no attention. A batch that has the size is returned as the same tensor.

    `CacheError` for more rows than ``size``, for a tensor without rows, and for a fill that the dtype cannot hold.
    """
    require_size(size, "size")
    if not isinstance(rows, Tensor) or not rows.dim():
        raise CacheError(f"rows: expected a tensor of one dimension or more, got {_described(rows)}")
    added = size - len(rows)
    if added < 0:
        raise CacheError(f"rows: expected at most {size}, the size to fill up to, got {len(rows)}")
    if not added:
        return rows
    filler = torch.full((added, *rows.shape[1:]), _held(fill, rows.dtype), dtype=rows.dtype, device=rows.device)
    return torch.cat([rows, filler])


def trim(results: Any, rows: int) -> Any:
    """Return the results of the first ``rows`` rows, whether any were added or not.

    Of a tensor, a list or a tuple the first ``rows`` entries; of a mapping those of every value; of a tuple of tensors,
    as models return them, those of every element. The obvious ``results[:-added]`` is empty where ``added`` is 0.

    `CacheError` where there are fewer entries than rows.

    Symptom: a full batch has no results, because no row was added to it.

    Before::

        def trimmed(tokens, rows, added):
            return tokens[:-added]

    After::

        from pytest_evalcheck.fixes.caches import trim

        def trimmed(tokens, rows, added):
            return trim(tokens, rows)

    Costs: nothing; the results of `pad_batch` and other fillers are views.

    Target: ec.decoder(inputs=es.prompts(vocab=vocabulary)) with generation(trimmed=trimmed)

    Shown by: EC305.
    """
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 0:
        raise CacheError(f"rows: expected a whole number of zero or more, got {rows!r}")
    if isinstance(results, Mapping):
        return {name: trim(value, rows) for name, value in results.items()}
    if isinstance(results, tuple) and any(isinstance(each, Tensor) for each in results):
        kept = [trim(each, rows) for each in results]
        return type(results)(*kept) if hasattr(results, "_fields") else tuple(kept)
    if not (isinstance(results, list | tuple) or (isinstance(results, Tensor) and results.dim())):
        raise CacheError(f"results: expected a tensor, a list, a tuple or a mapping of them, got {_described(results)}")
    if len(results) < rows:
        raise CacheError(f"results: expected {rows} rows or more, got {len(results)}")
    return results[:rows]


def _held(fill: Any, dtype: torch.dtype) -> Any:
    if isinstance(fill, Tensor):
        fill = fill.item()
    if dtype != torch.bool and not dtype.is_floating_point and not dtype.is_complex:
        bounds = torch.iinfo(dtype)
        if not isinstance(fill, int) or not bounds.min <= fill <= bounds.max:
            raise CacheError(f"fill: expected an integer that {dtype} can hold, got {fill!r}")
    return fill


def _described(value: object) -> str:
    return "a tensor without dimensions" if isinstance(value, Tensor) else type(value).__name__


@dataclass(frozen=True)
class BatchPlan:
    """The requests of each batch: every request once, every batch but the last full."""

    batches: tuple[tuple[int, ...], ...]

    def restore(self, results: Iterable[Sequence[Result]]) -> list[Result]:
        """Return the results of the batches, given in the order of the plan, in the order of the requests.

        ``results`` has one sequence per batch with one entry per row. `CacheError` for another number of batches or
        rows.
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

    The longest come first: too little memory is an error at once, and batches have little padding. Requests of one
    length keep their order. `CacheError` for an invalid capacity or length.

    `expand_choices` makes the rows of multiple-choice questions for it.

    Symptom: more prompts than the cache has rows: some have no answer.

    Before::

        def answers(prompts, capacity, generate):
            return generate(prompts[:capacity])

    After::

        from pytest_evalcheck.fixes.caches import plan_batches

        def answers(prompts, capacity, generate):
            plan = plan_batches(map(len, prompts), capacity)
            found = (generate([prompts[i] for i in batch]) for batch in plan.batches)
            return plan.restore(found)

    Costs: one sort of the lengths.

    Target: ec.decoder(inputs=es.prompts(vocab=vocabulary)) with generation(answers=answers)

    Shown by: EC303.
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
    """The rows of multiple-choice questions, one per choice, and how many each question has."""

    rows: list[Row]
    counts: tuple[int, ...]

    def regroup(self, results: Sequence[Result]) -> list[list[Result]]:
        """Return one list per question, with one result per choice; `CacheError` for another number of results."""
        if len(results) != len(self.rows):
            raise CacheError(f"results: expected one for each of {len(self.rows)} rows, got {len(results)}")
        ends = zip(accumulate(self.counts), self.counts, strict=True)
        return [list(results[end - count : end]) for end, count in ends]


def expand_choices(contexts: Sequence[Any], choices: Sequence[Sequence[Any]]) -> Expansion[Any]:
    """Return one row per context and choice, ``context + choice``; questions may have different numbers of choices.

    Questions x choices may exceed the capacity; as rows of a plan they fill batches across questions::

        expansion = expand_choices(contexts, choices)
        plan = plan_batches(map(len, expansion.rows), capacity)
        scores = plan.restore(score([expansion.rows[index] for index in batch]) for batch in plan.batches)
        per_question = expansion.regroup(scores)
    """
    if len(contexts) != len(choices):
        raise CacheError(f"choices: expected those of {len(contexts)} contexts, got {len(choices)}")
    rows = [context + choice for context, each in zip(contexts, choices, strict=True) for choice in each]
    return Expansion(rows, tuple(map(len, choices)))
