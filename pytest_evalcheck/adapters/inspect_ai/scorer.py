"""inspect_ai: metrics over the scores of all samples, and reducers of the scores of several epochs.

Both are functions, so `metrics` and `reducer` describe them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_evalcheck.adapters.common.documents import first, gold
from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.kinds.scorer.declared import Reducer
from pytest_evalcheck.kinds.scorer.subject import Scorer

VALUE = "value"
"""The name of the first metric in a summary."""


def metrics(value: Callable[..., Any], beside: Callable[..., Any], **fields: Any) -> Scorer:
    """The record of a metric and of another one that gives its error or interval, such as ``mean()`` and ``stderr()``.

    A response scores 1.0 where it is the ``answer`` of its document, which is the metadata of the sample. The summary
    has the first metric as ``value``, and the other one as ``error`` or, where it is a mapping, by the names of that.
    ``fields`` are those of `Scorer`, such as ``intervals``.
    """

    def summary(responses: Any, documents: Any) -> dict[str, Any]:
        from inspect_ai.scorer import SampleScore, Score

        pairs = zip(responses, documents, strict=True)
        marks = {mark: Score(value=mark) for mark in (0.0, 1.0)}  # making one takes as long as all else of a sample
        scores = [
            SampleScore(score=marks[score_document(own, row)], sample_id=index, sample_metadata=dict(row))
            for index, (own, row) in enumerate(pairs)
        ]
        found = called(beside, scores)
        return {VALUE: called(value, scores), **(found if isinstance(found, Mapping) else {"error": found})}

    return Scorer.of(score_document, summary=summary, **{"source": beside, **fields})


def reducer(reduce: Callable[..., Any], *, exact: str = "", k: int = 0) -> Scorer:
    """The record of a reducer of epochs, such as ``pass_at(2)``, of which each is a response; see `Reducer`."""

    def reduced(tries: Sequence[float]) -> float:
        from inspect_ai.scorer import Score

        return float(called(reduce, [Score(value=score) for score in tries]).value)

    def score(responses: Sequence[Any], document: Any) -> float:
        return reduced([float(response == gold(document, "answer")) for response in responses])

    return Scorer.of(score, reducer=Reducer(reduce=reduced, exact=exact, k=k), source=reduce)


def score_document(responses: Sequence[Any], document: Any) -> float:
    """Return 1.0 where the first response is the answer of a document."""
    return float(first(responses, document) == gold(document, "answer"))
