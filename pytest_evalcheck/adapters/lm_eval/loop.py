"""lm-evaluation-harness: ``simple_evaluate`` of a task with an `HFLM`, or any other model of it that has batches."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_evalcheck.adapters.lm_eval.runs import Run, logged_samples
from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.loop.record import BATCH_SIZES, Evaluated, Loop

CLASSES = ("lm_eval.models.huggingface.HFLM", "lm_eval.api.model.LM")
SIZES = ("batch_size_per_gpu", "_batch_size", "batch_size")
"""Attributes in which models hold their batch size. It is no option of a model without any of them."""

OPTIONS: dict[str, tuple[Any, ...]] = {"batch_size": BATCH_SIZES, "logits_cache": (True, False)}
"""Options that must not change the numbers: the batch size, and whether requests with a common prefix share a
forward."""
DEFAULT: dict[str, Any] = {
    "task": "drawn",
    "test_split": "test",
    "output_type": "loglikelihood",
    "doc_to_text": "question",
    "doc_to_target": "answer",
}


def record(lm: Any) -> Loop:
    """The record of a model, on documents whose ``answer`` continues the ``question``."""
    from datasets import Dataset
    from lm_eval.api.task import ConfigurableTask

    def dataset(**_: Any) -> dict[str, Any]:
        return {"test": Dataset.from_list([{"question": "a", "answer": "a"}])}

    return loop(lm, ConfigurableTask(config={**DEFAULT, "custom_dataset": dataset}))


def loop(lm: Any, task: Any, **fields: Any) -> Loop:
    """The record of a model on a task: the collate of the target's inputs returns a list of documents.

    The numbers are those of the results, by ``metric,filter`` (without ``,none``) and without standard errors; a record
    is the logged sample of a document, by its ``doc_id``. Its evaluators are copies of the task under other names,
    with documents of their own, in one evaluation, which puts their requests into common batches.

    Args:
        lm: a model of lm_eval. A copy evaluates, with the batch size of the configuration.
        task: a `ConfigurableTask` that is evaluated on the documents that are drawn.
        fields: of `Loop`, added to these or instead of them.
    """
    run = Run(task)
    sized = next((name for name in SIZES if name in vars(lm)), "")
    cached = "logits_cache" in vars(lm)

    def with_options(batch_size: int, logits_cache: bool = True) -> Any:
        model = copy.copy(lm)
        for name, value in ((sized, batch_size), ("logits_cache" if cached else "", logits_cache)):
            if name:
                setattr(model, name, value)
        return model

    def evaluate(data: Any, batch_size: int = 2, logits_cache: bool = True) -> Evaluated:
        try:
            output = run.with_model(with_options(batch_size, logits_cache), data.collate(list(data)))
        except NotImplementedError as error:
            asked = f"{task.OUTPUT_TYPE}, which the task asks for"
            raise NotApplicable(f"the model does not implement {asked}; `loop(lm, task)` takes another") from error
        return _result(output)

    def evaluators(sets: Mapping[str, Any], order: Sequence[str], batch_size: int = 2) -> dict[str, Evaluated]:
        documents = {name: sets[name].collate(list(sets[name])) for name in order}
        outputs = run.together_with_model(with_options(batch_size), documents)
        return {name: _result(output) for name, output in outputs.items()}

    options = {name: OPTIONS[name] for name, has in (("batch_size", sized), ("logits_cache", cached)) if has}
    made = getattr(lm, "model", None)
    known = {"options": options, "model": made if hasattr(made, "parameters") else None, "source": lm}
    known["evaluators"] = evaluators
    return Loop(evaluate=evaluate if options else lambda data: evaluate(data), **{**known, **fields})


def _result(output: Mapping[str, Any]) -> Evaluated:
    (results,), samples = output["results"].values(), logged_samples(output)
    return Evaluated(_numbers(results), [(sample["doc_id"], _fields(sample)) for sample in samples])


def _numbers(results: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {name.removesuffix(",none"): value for name, value in results.items() if "," in name}
    return {name: value for name, value in numbers.items() if "_stderr" not in name}


def _fields(sample: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {f"{name}, {sample['filter']}": sample[name] for name in sample["metrics"]}
    given = [tuple(request) for request in sample.get("arguments", ())]
    texts = [[part for part in request if isinstance(part, str)] for request in given]
    asked = {"prompt": texts, "parameters": [[p for p in request if isinstance(p, Mapping)] for request in given]}
    return {**asked, "responses": sample["filtered_resps"], **numbers}
