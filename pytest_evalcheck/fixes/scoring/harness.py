"""lm-eval with slow metrics: a filter that scores in parallel, from Python or from a task's YAML.

Importing this module registers the filter "parallel". In a task's YAML, with a ``utils.py`` beside it that imports
this module::

    filter_list:
      - name: simulated
        filter:
          - function: parallel
            score: !function utils.simulate
            n_jobs: 8
            timeout: 60
            errors: record
    process_results: !function utils.process_results
    metric_list: !function utils.metric_list

where ``utils`` holds ``numbers = Numbers({...}, failed=...)``, ``process_results = numbers.process_results`` and
``metric_list = numbers.metric_list()``.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pytest_evalcheck.errors import nearest
from pytest_evalcheck.fixes.scoring.api import Scores, score_documents
from pytest_evalcheck.fixes.scoring.errors import identified, needed
from pytest_evalcheck.fixes.scoring.scheduler import RunReport

logger = logging.getLogger(__name__)
Filter = needed("lm_eval.api.filter").Filter
# As the keywords of score_documents: those that a filter has a use for, in a YAML file too.
_KEYWORDS = [
    name for name, each in inspect.signature(score_documents).parameters.items() if each.kind is each.KEYWORD_ONLY
]


def _score_pair(score: Callable[[Any, Any], Any], pair: tuple[Any, Any]) -> Any:
    return score(*pair)


class ParallelFilter(Filter):  # type: ignore[misc, valid-type]
    """Filter that replaces the responses of every document by ``score(responses, document)``, many documents at a time.

    All keywords are those of `score_documents`; ``report`` is called with the `RunReport` of every run. With
    ``errors="raise"`` the evaluation ends with an error that names all documents that failed; with "record" their
    place is taken by a `DocumentError`, of which `Numbers` says what it counts.
    """

    def __init__(
        self,
        score: Callable[[Any, Any], Any] | None = None,
        *,
        report: Callable[[RunReport], Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if not callable(score):
            given = "nothing" if score is None else f"{type(score).__name__} {score!r}"
            raise TypeError(f"parallel: score: expected a function of responses and a document, got {given}")
        for name in options:
            if name not in _KEYWORDS:
                hint = nearest(name, [*_KEYWORDS, "report"]) or f"; there are {', '.join(_KEYWORDS)}"
                raise TypeError(f"parallel: there is no option {name!r}{hint}")
        options.setdefault("document_id", _id_of_pair)
        self._score = score
        self._report = report
        self._options = options

    def apply(self, resps: Iterable[Any], docs: Sequence[Any]) -> list[Any]:
        """Score the responses of every document; ValueError where there are more of one than of the other."""
        return list(_scored(self._score, list(resps), list(docs), self._options, self._report))


def score_samples(samples: Iterable[Mapping[str, Any]], score: Callable[[Any, Any], Any], **options: Any) -> Scores:
    """Score what an evaluation with ``predict_only=True`` logged: ``results["samples"][task]``, or its JSON lines.

    ``score`` gets what a filter would get: the list of responses to a document, and the document. Samples that lm-eval
    logs once for every filter are scored once. The keywords are those of `score_documents`.
    """
    taken: dict[Any, Mapping[str, Any]] = {}
    for number, sample in enumerate(samples):
        lacking = [key for key in ("doc", "resps") if key not in sample]
        if lacking:
            raise ValueError(f"sample {number}: expected a logged sample of lm-eval, it lacks {', '.join(lacking)}")
        taken.setdefault(sample.get("doc_id", number), sample)
    resps = [each["resps"][0] if len(each["resps"]) == 1 else each["resps"] for each in taken.values()]
    options.setdefault("document_id", _id_of_pair)
    return _scored(score, resps, [each["doc"] for each in taken.values()], options, None)


def _scored(
    score: Callable[[Any, Any], Any],
    resps: list[Any],
    docs: list[Any],
    options: Mapping[str, Any],
    report: Callable[[RunReport], Any] | None,
) -> Scores:
    if len(resps) != len(docs):
        raise ValueError(
            f"expected the responses of every document, got {len(resps)} of them for {len(docs)} documents: "
            "an earlier filter dropped or added some"
        )
    scores = score_documents(partial(_score_pair, score), list(zip(resps, docs, strict=True)), **options)
    run = scores.report
    logger.info("scored %d documents in %.1f s (%s: %s)", run.documents, run.seconds, run.backend, run.why)
    if report is not None:
        report(run)
    return scores


def _id_of_pair(pair: tuple[Any, Any]) -> Any:
    found = (identified(pair[1], key) for key in ("id", "task_id", "doc_id"))
    return next((each for each in found if each is not None), None)


needed("lm_eval.api.registry").register_filter("parallel")(ParallelFilter)
