"""Hugging Face evaluate: `EvaluationModule` and `CombinedEvaluations` as scorers of one document at a time.

The prediction is the first response to a document. The reference is the document itself or, of a mapping, its field
``answer``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pytest_evalcheck.adapters.common.documents import first, gold
from pytest_evalcheck.adapters.evaluate import metric as hf_evaluate
from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.kinds.common.convention import Convention
from pytest_evalcheck.kinds.scorer.subject import Scorer, score_one_by_one

CLASSES = ("evaluate.module.CombinedEvaluations", "evaluate.module.EvaluationModule")


def record(module: Any) -> Scorer:
    """The record of a module: ``compute(predictions=[response], references=[answer])`` for every document.

    The parts of a combination are its modules.
    """
    hf_evaluate.record(module)  # creates a folder for it alone
    parts = getattr(module, "evaluation_modules", None)
    if parts is None:
        return Scorer(
            score=partial(score_one_by_one, partial(_score, module)), conventions=_conventions(module), source=module
        )
    by_name = dict(zip(module.evaluation_module_names, parts, strict=True))

    def together(names: Sequence[str], responses: Any, documents: Any) -> list[dict[str, Any]]:
        chosen = called(type(module), {name: by_name[name] for name in names}, force_prefix=True)
        return [_by_part(names, _score(chosen, own, row)) for own, row in zip(responses, documents, strict=True)]

    return Scorer(
        score=partial(score_one_by_one, partial(_score, module)),
        parts=tuple(by_name),
        together=together,
        conventions=_conventions(module),
        source=module,
    )


def _conventions(module: Any) -> dict[str, Convention]:
    """The pair of a document is added first, and ``compute`` is called without arguments."""

    def add(responses: Sequence[Any], document: Any) -> Any:
        prediction, reference = _pair(responses, document)
        called(module.add, prediction=prediction, reference=reference)
        return called(module.compute)

    def add_batch(responses: Sequence[Any], document: Any) -> Any:
        prediction, reference = _pair(responses, document)
        called(module.add_batch, predictions=[prediction], references=[reference])
        return called(module.compute)

    return {
        "add, then compute": Convention(hf_evaluate.ADD, score=partial(score_one_by_one, add)),
        "add_batch, then compute": Convention(hf_evaluate.ADD_BATCH, score=partial(score_one_by_one, add_batch)),
    }


def _score(module: Any, responses: Sequence[Any], document: Any) -> Any:
    prediction, reference = _pair(responses, document)
    return called(module.compute, predictions=[prediction], references=[reference])


def _pair(responses: Sequence[Any], document: Any) -> tuple[Any, Any]:
    reference = gold(document, "answer") if isinstance(document, dict) else document
    return first(responses, document), reference


def _by_part(names: Sequence[str], scores: dict[str, Any]) -> dict[str, Any]:
    # Every key starts with the name of its module, which may start with the name of another one.
    by_part: dict[str, dict[str, Any]] = {name: {} for name in names}
    for key, value in scores.items():
        own = max((name for name in names if key.startswith(f"{name}_")), key=len)
        by_part[own][key] = value
    return by_part
