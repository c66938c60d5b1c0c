"""lm-evaluation-harness: filters, pipelines of them, metric functions, ``process_results`` and whole tasks.

A `Filter`, a `FilterEnsemble` and a `ConfigurableTask` may be returned from a factory as they are. Functions are
told apart by how lm-eval calls them: `metric` and `process_results` say which it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pytest_evalcheck.adapters.common.documents import Gold, first, gold
from pytest_evalcheck.kinds.scorer.subject import Scorer


def record(made: Any) -> Scorer:
    """The record of a filter, of a pipeline of filters, or of a task, which is run on the documents that are drawn."""
    if hasattr(made, "build_all_requests"):
        from pytest_evalcheck.adapters.lm_eval import task as lm_eval_task

        return lm_eval_task.record(made)
    from lm_eval.api.filter import FilterEnsemble

    return _pipeline(made) if isinstance(made, FilterEnsemble) else _filter(made)


def metric(function: Callable[..., Any], *, target: Gold = "answer", repeats: bool = False, **keywords: Any) -> Scorer:
    """The record of a metric function, called document by document as a task of lm-eval calls it.

    ``function(references=[gold], predictions=[response], **keywords)`` gives a number, or several by name. The gold
    answer is the field ``target`` of the document, or what a function makes of it. The response is the first one, as
    after the filter ``take_first``; with ``repeats=True`` it is the list of all, as after a filter that keeps them.

    Raises:
        TypeError: where ``function`` cannot be called.

    >>> exact = metric(lambda references, predictions: float(references == predictions))
    >>> exact.score([["4"], ["6"]], [{"answer": "4"}, {"answer": "5"}])
    [1.0, 0.0]
    """
    _must_be_callable(function, "function(references=[gold], predictions=[response])")

    def one(responses: Sequence[Any], document: Any) -> Any:
        prediction = responses if repeats else first(responses, document)
        return function(references=[gold(document, target)], predictions=[prediction], **keywords)

    return Scorer.of(one, source=function, configuration=lambda: keywords)


def process_results(function: Callable[[Any, Any], Any], *, repeats: bool = False) -> Scorer:
    """The record of a function that is the ``process_results`` of a task.

    ``function(document, results)`` gives numbers by name. ``results`` has one entry a request: the responses to the
    choices, or one text; with ``repeats=True`` that one entry is the list of all responses.

    Raises:
        TypeError: where ``function`` cannot be called.
    """
    _must_be_callable(function, "function(document, results)")

    def one(responses: Sequence[Any], document: Any) -> Any:
        return function(document, [responses] if repeats else responses)

    return Scorer.of(one, source=function)


def _must_be_callable(function: Any, how: str) -> None:
    if not callable(function):
        raise TypeError(f"{function!r} is no function; expected {how}")


def _filter(made: Any) -> Scorer:
    return Scorer(
        score=made.apply, iterators=True, configuration=lambda: dict(getattr(made, "__dict__", {})), source=made
    )


def _pipeline(ensemble: Any) -> Scorer:
    from lm_eval.api.instance import Instance

    def score(responses: Sequence[Any], documents: Sequence[Any]) -> list[Any]:
        made = [
            Instance(
                request_type="generate_until",
                doc=document,
                arguments=("", {}),
                idx=0,
                metadata=(ensemble.name, place, len(own)),
                resps=own,
            )
            for place, (own, document) in enumerate(zip(responses, documents, strict=True))
        ]
        ensemble.apply(made)
        return [instance.filtered_resps[ensemble.name] for instance in made]

    return Scorer(
        score=score,
        configuration=lambda: [getattr(make, "keywords", None) for make in ensemble.filters],
        source=ensemble,
    )
