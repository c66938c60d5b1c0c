"""The inputs that torchmetrics' own tests would give a metric, for the samples of a gallery pair.

Its test suite writes every stream in one shape: ``NUM_BATCHES`` batches of ``BATCH_SIZE`` rows, drawn once
with a fixed seed from ``torch.rand``, ``randn`` or ``randint``. The sizes of one row are read off a collated
batch.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import torch
from unittests import BATCH_SIZE, NUM_BATCHES
from unittests._helpers import seed_all
from unittests._helpers.testers import inject_ignore_index

from pytest_evalcheck.strategies import Arguments, Bulk, SampleStrategy


class Stream(NamedTuple):
    """``preds[i]`` and ``target[i]`` are batch i; ``extra`` holds further arguments, cut in the same way."""

    preds: Any
    target: Any
    extra: dict[str, torch.Tensor]
    arguments: int
    """Number of positional arguments ``update`` takes; the harness always gives two."""


def streams(inputs: SampleStrategy, *, ignore_index: int | None = None) -> dict[str, Stream]:
    """The streams for these samples, by name; with ``ignore_index`` also one into which it was injected.

    Raises `LookupError` when the samples carry no rows to read sizes from.
    """
    seed_all(42)
    batch = _sizes(inputs)
    names = list(batch.kwargs) or ["preds", "target"]
    given = [*batch.args, *batch.kwargs.values()]
    if not isinstance(given[0], torch.Tensor):
        return {"texts": _texts(given)}
    found = {}
    for form, draw in _float_forms(inputs.name).items():
        drawn = [draw(column) if column.is_floating_point() else _integers(column) for column in given]
        found[form] = _stream(names, drawn)
        if not any(column.is_floating_point() for column in given):
            break
    first = next(iter(found.values()))
    if inputs.name.startswith("multiclass") and not first.preds.is_floating_point():
        absent = [_without_class_0(column) for column in (first.preds, first.target)]
        found["a class is missing"] = first._replace(preds=absent[0], target=absent[1])
    if ignore_index is not None and not first.target.is_floating_point():
        found["ignored labels"] = first._replace(target=inject_ignore_index(first.target, ignore_index))
    return found


def _sizes(inputs: SampleStrategy) -> Arguments:
    rows = inputs.contrast or (inputs.bulk(Bulk(seed=0, rows=8)) if inputs.bulk else ())
    if not rows:
        raise LookupError(f"samples {inputs.name!r} have neither contrast nor bulk rows to read their sizes from")
    return Arguments.of(inputs.collate(list(rows)))


def _stream(names: list[str], columns: list[Any]) -> Stream:
    named = dict(zip(names, columns, strict=False))
    preds, count = named.pop("preds"), len(columns)
    target = named.pop("target", torch.zeros(NUM_BATCHES, BATCH_SIZE))
    return Stream(preds, target, named, arguments=min(count, 2))


def _shape(column: torch.Tensor) -> tuple[int, ...]:
    return (NUM_BATCHES, BATCH_SIZE, *column.shape[1:])


def _integers(column: torch.Tensor) -> torch.Tensor:
    return torch.randint(high=int(column.max()) + 1, size=_shape(column))


def _without_class_0(labels: torch.Tensor) -> torch.Tensor:
    return torch.where(labels == 0, labels.max(), labels)


def _float_forms(name: str) -> dict[str, Any]:
    uniform = {"uniform": lambda column: torch.rand(_shape(column))}
    normal = {"normal": lambda column: torch.randn(_shape(column))}
    if name == "multiclass probabilities":
        return {"probabilities": lambda column: torch.randn(_shape(column)).softmax(2)}
    if name == "multiclass logits":
        return {"logits": lambda column: torch.rand(_shape(column)).log_softmax(2)}
    if "logits" in name or name == "tokens":
        return normal
    if "probabilities" in name or name in ("retrieval", "weighted values"):
        return uniform
    return uniform | normal


def _texts(columns: list[Any]) -> Stream:
    rng = random.Random(42)
    words = sorted({word for text in columns[0] for word in text.split()})

    def drawn(one: Any) -> Any:
        if isinstance(one, str):
            return " ".join(rng.choices(words, k=rng.randint(2, 8)))
        return [drawn(inner) for inner in one]

    preds, target = ([[drawn(column[0]) for _ in range(BATCH_SIZE)] for _ in range(NUM_BATCHES)] for column in columns)
    return Stream(preds, target, {}, arguments=2)
