"""lm-evaluation-harness: ``simple_evaluate`` of a task with an `HFLM`, or any other model of it that has batches."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from pytest_evalcheck.adapters.lm_eval.task import Run
from pytest_evalcheck.kinds.loop.record import BATCH_SIZES, Evaluated, Loop

OPTIONS: dict[str, tuple[Any, ...]] = {"batch_size": BATCH_SIZES, "logits_cache": (True, False)}
"""What may not change the numbers: batches, and whether requests that begin alike share a forward."""
DEFAULT: dict[str, Any] = {
    "task": "drawn",
    "test_split": "test",
    "output_type": "loglikelihood",
    "doc_to_text": "question",
    "doc_to_target": "answer",
}


def record(lm: Any) -> Loop:
    """The record of a model, on documents of which the ``answer`` continues the ``question``."""
    from datasets import Dataset
    from lm_eval.api.task import ConfigurableTask

    def of_one(**_: Any) -> dict[str, Any]:
        return {"test": Dataset.from_list([{"question": "a", "answer": "a"}])}

    return loop(lm, ConfigurableTask(config={**DEFAULT, "custom_dataset": of_one}))


def loop(lm: Any, task: Any, **fields: Any) -> Loop:
    """The record of a model on a task: the collate of the target's inputs gives a list of documents.

    The numbers are those of the results, by ``metric,filter`` (less ``,none``) and without standard errors; a record is
    what was logged of a document, by its ``doc_id``.

    Args:
        lm: a model of lm_eval. Every batch size that is asked for is one of a copy.
        task: a `ConfigurableTask` that is evaluated on the documents that are drawn.
        fields: of `Loop`, beside or instead of what is known of these.
    """
    run = Run(task)

    def evaluate(data: Any, batch_size: int = 2, logits_cache: bool = True) -> Evaluated:
        sized = copy.copy(lm)
        sized.batch_size_per_gpu, sized.logits_cache = batch_size, logits_cache
        found = run.with_model(sized, data.collate(list(data)))
        (results,), (samples,) = found["results"].values(), found["samples"].values()
        return Evaluated(_numbers(results), [(one["doc_id"], _logged(one)) for one in samples])

    plain = {"options": OPTIONS, "model": lm.model, "source": lm}
    return Loop(evaluate=evaluate, **{**plain, **fields})


def _numbers(results: Mapping[str, Any]) -> dict[str, Any]:
    named = {name.removesuffix(",none"): value for name, value in results.items() if "," in name}
    return {name: value for name, value in named.items() if "_stderr" not in name}


def _logged(sample: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {f"{name}, {sample['filter']}": sample[name] for name in sample["metrics"]}
    return {"responses": sample["filtered_resps"], **numbers}
