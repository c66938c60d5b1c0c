"""The accumulators of `fixes`, each with samples that it takes and batches that it refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from pytest_evalcheck.fixes import CompensatedSum, Moments, SampleStream, WeightedMean

Sample = tuple[float, int]
TEMPLATES = {"score": torch.empty(0, dtype=torch.float16), "label": torch.empty(0, dtype=torch.int64)}


@dataclass(frozen=True)
class Kind:
    make: Callable[[], Any]
    collate: Callable[[list[Sample]], tuple[torch.Tensor, ...]]
    bad: tuple[tuple[tuple[Any, ...], type[Exception], str], ...]
    ordered: bool = False


def scores(samples: list[Sample]) -> tuple[torch.Tensor, ...]:
    return (torch.tensor([score for score, _ in samples], dtype=torch.float16),)


def pairs(samples: list[Sample]) -> tuple[torch.Tensor, ...]:
    return (torch.tensor([[score, weight] for score, weight in samples], dtype=torch.float16).reshape(-1, 2),)


def weighted(samples: list[Sample]) -> tuple[torch.Tensor, ...]:
    return (*scores(samples), torch.tensor([weight for _, weight in samples], dtype=torch.int64))


NOT_NUMBERS: Any = (
    ((None,), TypeError, "values: expected a tensor or real numbers, got NoneType"),
    (("0.5",), TypeError, "got str"),
    ((["a"],), ValueError, "values: expected a tensor or real numbers"),
    (([[1.0], [1.0, 2.0]],), ValueError, "in a regular shape"),
    ((2**70,), ValueError, "values: expected a tensor or real numbers"),
    ((torch.ones(2, dtype=torch.complex64),), TypeError, "dense tensor of real numbers, got torch.complex64"),
    ((torch.ones(2).to_sparse(),), TypeError, "torch.sparse_coo"),
    ((torch.ones(2, dtype=torch.uint64),), TypeError, "torch.uint64"),
    (([torch.ones(1), 1.0],), TypeError, "a mixture"),
    (([torch.ones(1), torch.ones(2)],), ValueError, "tensors of one shape"),
)
NOT_PAIRS: Any = (
    ((torch.ones(3),), ValueError, r"values: expected a shape that ends in \(2,\), got \(3,\)"),
    ((1.0,), ValueError, r"ends in \(2,\), got \(\)"),
)
NOT_WEIGHTS: Any = (
    (
        (torch.ones(3), torch.ones(2)),
        ValueError,
        r"weights: expected one number, or one per row of shape \(3,\)",
    ),
    ((torch.ones(3), torch.ones(3, 1)), ValueError, "weights: expected one number"),
    ((torch.ones(3), "heavy"), TypeError, "weights: expected a tensor or real numbers, got str"),
    ((torch.ones(3), torch.ones(3, dtype=torch.complex64)), TypeError, "weights: expected a dense tensor"),
)
LABELS = torch.tensor([0, 1])
NOT_ROWS: Any = (
    ((torch.ones(2).half(),), TypeError, r"each of the fields \('score', 'label'\), got 1 by position"),
    ((torch.ones(2).half(), LABELS, LABELS), TypeError, "got 3 by position"),
    ((torch.ones(3).half(), LABELS), ValueError, "as many rows in every field, got {'score': 3, 'label': 2}"),
    ((torch.ones(2).half(), [0, 1]), TypeError, "label: expected a dense tensor, got list; torch.as_tensor"),
    (
        (torch.ones(2).half(), LABELS.to_sparse()),
        TypeError,
        "label: expected a dense tensor, got torch.sparse_coo",
    ),
    (
        (torch.tensor(1.0).half(), torch.tensor(1)),
        ValueError,
        r"score: expected a tensor of shape \(n, ...\)",
    ),
)
NOT_THESE_ROWS: Any = (
    *NOT_ROWS,
    (
        (torch.ones(2), LABELS),
        TypeError,
        r"score: expected torch.float16, got torch.float32; cast it with .to",
    ),
    (
        (torch.ones(2).half(), LABELS.reshape(2, 1)),
        ValueError,
        r"label: expected rows of shape \(\), got \(1,\)",
    ),
)

KINDS = {
    "sum": Kind(CompensatedSum, scores, NOT_NUMBERS),
    "sum of pairs": Kind(lambda: CompensatedSum((2,)), pairs, NOT_PAIRS),
    "sum in float32": Kind(lambda: CompensatedSum(dtype=torch.float32), scores, NOT_NUMBERS),
    "mean": Kind(WeightedMean, scores, (*NOT_NUMBERS, *NOT_WEIGHTS)),
    "weighted mean": Kind(WeightedMean, weighted, (*NOT_NUMBERS, *NOT_WEIGHTS)),
    "mean of pairs": Kind(lambda: WeightedMean((2,)), pairs, NOT_PAIRS),
    "moments": Kind(Moments, scores, NOT_NUMBERS),
    "moments of pairs": Kind(lambda: Moments((2,), correction=0), pairs, NOT_PAIRS),
    "samples": Kind(lambda: SampleStream(["score", "label"]), weighted, NOT_ROWS, ordered=True),
    "samples with templates": Kind(lambda: SampleStream(TEMPLATES), weighted, NOT_THESE_ROWS, ordered=True),
}


def value(accumulator: Any) -> dict[str, torch.Tensor] | str:
    try:
        result = accumulator.compute()
    except ValueError as error:
        return str(error)
    return result if isinstance(result, dict) else {"value": result}


def is_same(a: dict[str, torch.Tensor] | str, b: dict[str, torch.Tensor] | str) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    return list(a) == list(b) and all(
        a[name].dtype == b[name].dtype
        and a[name].shape == b[name].shape
        and torch.equal(a[name].isnan(), b[name].isnan())
        and torch.equal(a[name].nan_to_num(), b[name].nan_to_num())
        for name in a
    )


def fed(kind: Kind, batches: list[list[Sample]]) -> Any:
    accumulator = kind.make()
    for batch in batches:
        accumulator.update(*kind.collate(batch))
    return accumulator


def joined(batches: list[list[Sample]]) -> list[Sample]:
    return [sample for batch in batches for sample in batch]
