"""Samples in containers of fields: several tasks in one batch, and answers to questions as SQuAD has them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from pytest_evalcheck.strategies.language import text_pairs
from pytest_evalcheck.strategies.samples import Arguments, Sample, SampleStrategy


def tasks(strategies: Mapping[str, SampleStrategy]) -> SampleStrategy:
    """Predictions and targets of several tasks: two dicts from the name of a task to its batch of N samples.

    A sample has one sample of each task; it is right, or wrong, where that of every task is.

    Raises:
        ValueError: where there is no task. Where a task has no positional pair ``(preds, target)``, the collate
            raises it.

    >>> from pytest_evalcheck import strategies as es
    >>> both = es.tasks({"kind": es.binary(of="labels"), "size": es.regression()})
    >>> preds, target = both.example(3)
    >>> preds["kind"].dtype, target["size"].shape
    (torch.int64, torch.Size([3]))
    """
    if not strategies:
        raise ValueError("tasks({}): expected a strategy for each task, such as {'kind': binary()}")
    names, inputs = list(strategies), list(strategies.values())

    def collate(samples: Sequence[Sample]) -> tuple[dict[str, Any], dict[str, Any]]:
        pairs = [_pair(name, inputs[i].collate([sample[i] for sample in samples])) for i, name in enumerate(names)]
        return {n: p[0] for n, p in zip(names, pairs, strict=True)}, {
            n: p[1] for n, p in zip(names, pairs, strict=True)
        }

    def changed(how: str) -> Any:
        changes = [getattr(strategy, how) for strategy in inputs]
        if None in changes:
            return None
        return lambda sample: tuple(change(part) for change, part in zip(changes, sample, strict=True))

    shown = [strategy.contrast for strategy in inputs]
    most = max(map(len, shown)) if all(shown) else 0
    return SampleStrategy(
        name=f"tasks {', '.join(names)}",
        sample=st.tuples(*(strategy.sample for strategy in inputs)),
        collate=collate,
        min_samples=max(strategy.min_samples for strategy in inputs),
        right=changed("right"),
        wrong=changed("wrong"),
        contrast=tuple(tuple(rows[i % len(rows)] for rows in shown) for i in range(most)),
    )


def _pair(name: str, batch: Any) -> tuple[Any, Any]:
    args = Arguments.of(batch).args
    if len(args) != 2:
        raise ValueError(f"the task {name!r} collates {len(args)} positional arguments; expected (preds, target)")
    return args[0], args[1]


def answers(*, references: int = 1) -> SampleStrategy:
    """Answers to questions, in the form of SQuAD: two lists of N dicts, which belong together by their ``id``.

    A prediction is ``{"id", "prediction_text"}``, a reference ``{"id", "answers": {"text", "answer_start"}}`` with as
    many texts as there are ``references``. Equal samples have one id.

    >>> from pytest_evalcheck import strategies as es
    >>> preds, target = es.answers().example(1)
    >>> preds[0]["id"] == target[0]["id"], preds[0]["prediction_text"] == target[0]["answers"]["text"][0]
    (True, True)
    """
    pairs = text_pairs(references=references)

    def collate(samples: Sequence[Sample]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        ids = [f"{zlib.crc32(repr(sample).encode()):08x}" for sample in samples]
        predictions = [{"id": i, "prediction_text": sample[0]} for i, sample in zip(ids, samples, strict=True)]
        truths = [{"text": list(sample[1]), "answer_start": [0] * references} for sample in samples]
        return predictions, [{"id": i, "answers": truth} for i, truth in zip(ids, truths, strict=True)]

    return pairs.replace(name="answers", collate=collate)
