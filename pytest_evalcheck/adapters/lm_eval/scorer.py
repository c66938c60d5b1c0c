"""lm-evaluation-harness: filters, pipelines of them, metric functions, ``process_results`` and whole tasks.

A factory may return a `Filter`, a `FilterEnsemble` or a `ConfigurableTask` as it is. lm-eval calls functions in two
ways: `metric` and `process_results` say which one it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pytest_evalcheck.adapters.common.documents import Gold, first, gold
from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.kinds.scorer.subject import Scorer

CLASSES = ("lm_eval.api.filter.Filter", "lm_eval.api.filter.FilterEnsemble", "lm_eval.api.task.ConfigurableTask")


def record(made: Any) -> Scorer:
    """The record of a filter, of a pipeline of filters, or of a task, which is run on the drawn documents."""
    if hasattr(made, "build_all_requests"):
        from pytest_evalcheck.adapters.lm_eval import runs

        return runs.record(made)
    from lm_eval.api.filter import FilterEnsemble

    return _pipeline(made) if isinstance(made, FilterEnsemble) else _filter(made)


def metric(function: Callable[..., Any], *, target: Gold = "answer", repeats: bool = False, **keywords: Any) -> Scorer:
    """The record of a metric function, called document by document as a task of lm-eval calls it.

    ``function(references=[gold], predictions=[response], **keywords)`` returns a number, or several by name. The gold
    answer is the field ``target`` of the document, or the result of a function of it. The response is the first one, as
    after the filter ``take_first``; with ``repeats=True`` it is the list of all, as after a filter that keeps them.

    Raises:
        TypeError: where ``function`` cannot be called.

    >>> exact = metric(lambda references, predictions: float(references == predictions))
    >>> exact.score([["4"], ["6"]], [{"answer": "4"}, {"answer": "5"}])
    [1.0, 0.0]
    """
    _require_callable(function, "function(references=[gold], predictions=[response])")

    def score_document(responses: Sequence[Any], document: Any) -> Any:
        prediction = responses if repeats else first(responses, document)
        return called(function, references=[gold(document, target)], predictions=[prediction], **keywords)

    return Scorer.of(score_document, source=function, configuration=lambda: keywords)


def process_results(function: Callable[[Any, Any], Any], *, repeats: bool = False) -> Scorer:
    """The record of a function that is the ``process_results`` of a task.

    ``function(document, results)`` returns numbers by name. ``results`` has one entry per request: the responses to the
    choices, or one text; with ``repeats=True`` that one entry is the list of all responses.

    Raises:
        TypeError: where ``function`` cannot be called.
    """
    _require_callable(function, "function(document, results)")

    def score_document(responses: Sequence[Any], document: Any) -> Any:
        return called(function, document, [responses] if repeats else responses)

    return Scorer.of(score_document, source=function)


def _require_callable(function: Any, signature: str) -> None:
    if not callable(function):
        raise TypeError(f"{function!r} is not a function; expected {signature}")


def _filter(made: Any) -> Scorer:
    return Scorer(
        score=made.apply, iterators=True, configuration=lambda: dict(getattr(made, "__dict__", {})), source=made
    )


def _pipeline(ensemble: Any) -> Scorer:
    from lm_eval.api.instance import Instance

    def score(responses: Sequence[Any], documents: Sequence[Any]) -> list[Any]:
        instances = [
            called(
                Instance,
                request_type="generate_until",
                doc=document,
                arguments=("", {}),
                idx=0,
                metadata=(ensemble.name, index, len(own)),
                resps=own,
            )
            for index, (own, document) in enumerate(zip(responses, documents, strict=True))
        ]
        called(ensemble.apply, instances)
        return [instance.filtered_resps[ensemble.name] for instance in instances]

    return Scorer(
        score=score,
        configuration=lambda: [getattr(make, "keywords", None) for make in ensemble.filters],
        source=ensemble,
    )
