"""The two functions that score documents."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from operator import ne
from typing import Any, Literal

from pytest_evalcheck.fixes.scoring.cache import ScoreCache
from pytest_evalcheck.fixes.scoring.errors import DocumentError, ScoringError
from pytest_evalcheck.fixes.scoring.options import Options, RunReport
from pytest_evalcheck.fixes.scoring.stream import ScoreStream


class Scores(list[Any]):
    """Scores in document order: a list, with what there is to say of them.

    ``errors`` are the `DocumentError` that stand in the place of a score, ``nan`` the indices of scores that are NaN
    or, for a mapping of numbers, hold one; ``report`` is the `RunReport` of the run.
    """

    def __init__(self, scores: Iterable[Any], report: RunReport) -> None:
        super().__init__(scores)
        self.report = report
        self.errors = [score for score in self if isinstance(score, DocumentError)] if report.failed else []
        self.nan = [] if _without_nan(self) else [index for index, score in enumerate(self) if _is_nan(score)]


def _without_nan(scores: list[Any]) -> bool:
    """Tell whether there is surely none, without a step of Python for every score: small documents would feel it."""
    try:
        total = sum(scores)  # which a single NaN makes one, as two opposite infinities do
    except Exception:  # texts, None, mappings, integers beyond every float
        return set(map(type, scores)) <= _PLAIN and not any(map(ne, scores, scores))
    return type(total) in (int, float) and total == total


_PLAIN = {float, int, bool, str, type(None)}


def _is_nan(score: Any) -> bool:
    if isinstance(score, float):
        return math.isnan(score)
    return isinstance(score, Mapping) and any(isinstance(each, float) and math.isnan(each) for each in score.values())


def score_documents(
    score: Callable[[Any], Any],
    documents: Iterable[Any],
    *,
    n_jobs: int | None = None,
    backend: str = "auto",
    timeout: float | None = None,
    errors: Literal["raise", "record"] = "raise",
    seed: int | None = 0,
    chunk: int | Literal["auto"] = "auto",
    window: int | None = None,
    cache: ScoreCache | str | os.PathLike[str] | None = None,
    depends_on: Mapping[str, Any] | None = None,
    document_id: str | Callable[[Any], Any] = "id",
    guard: bool = False,
    progress: bool | Callable[[int], Any] = False,
) -> Scores:
    """Score every document, and return the scores in document order, whatever was run where.

    All documents are scored, also when some fail: with ``errors="raise"`` one `ScoringError` then names all of those
    and holds the scores of the others; with "record" a `DocumentError` stands in the place of a score. The keywords
    are those of `stream_scores`.

    >>> score_documents(len, ["a", "bc", ""])
    [1, 2, 0]
    """
    if errors not in ("raise", "record"):
        raise ValueError(f"errors: expected one of 'raise', 'record', got {errors!r}")
    stream = stream_scores(
        score,
        documents,
        n_jobs=n_jobs,
        backend=backend,
        timeout=timeout,
        errors="record",
        seed=seed,
        chunk=chunk,
        window=window,
        cache=cache,
        depends_on=depends_on,
        document_id=document_id,
        guard=guard,
        progress=progress,
    )
    scores: list[Any] = []
    for finished in stream.chunks():
        scores.extend(finished.results)
    found = Scores(scores, stream.report)
    if found.errors and errors == "raise":
        raise ScoringError(found.errors, found) from found.errors[0].__cause__
    return found


def stream_scores(
    score: Callable[[Any], Any],
    documents: Iterable[Any],
    *,
    n_jobs: int | None = None,
    backend: str = "auto",
    timeout: float | None = None,
    errors: Literal["raise", "record"] = "raise",
    seed: int | None = 0,
    chunk: int | Literal["auto"] = "auto",
    window: int | None = None,
    cache: ScoreCache | str | os.PathLike[str] | None = None,
    depends_on: Mapping[str, Any] | None = None,
    document_id: str | Callable[[Any], Any] = "id",
    guard: bool = False,
    progress: bool | Callable[[int], Any] = False,
) -> ScoreStream:
    """Score a stream of documents, and give the scores one after another, in document order.

    ``documents`` is read once, in the thread that takes the scores, and only ``window`` documents ahead (by default
    as many as keep the workers busy), so memory does not grow with their number.

    * ``backend``: "serial" (in this process), "threads", "processes", "dask" or "ray" (a cluster that there is a
      client of), "joblib" (what ``joblib.parallel_config`` says), or "auto": documents are scored in this process
      until it is clear from what they take that processes would be faster.
    * ``n_jobs``: the number of workers, -1 for one a core, which None means too.
    * ``timeout``: seconds that a document may take. One that does not react to an exception is ended with its
      process. Needs processes; "auto" is "processes" then.
    * ``errors``: "raise" raises the `DocumentError` of a document in its turn; "record" gives it in place of a score.
      A worker that dies, by whatever means, is a failure of the document that killed it, and of no other.
    * ``seed``: before every document the global generators of Python, NumPy and torch are seeded with
      ``document_seed(seed, document)``, and given back as they were; None leaves them alone. Threads share their
      generators, so nothing is seeded there, and a warning tells if somebody draws.
    * ``chunk``: documents sent at a time; "auto" measures, and makes sending a small part of the work.
    * ``cache``: a file for scores, found again by the source of the function (see ``fingerprint``), the document,
      the seed and ``depends_on``: name there the model, the version of the task, and what else cannot be seen.
    * ``document_id``: the key of a document's id, or a function that gives it, for error messages.
    * ``guard``: fail a document that the function wrote into, at the cost of pickling it twice.
    * ``progress``: True for a bar (tqdm), or a function that is told how many more documents are finished.

    >>> list(stream_scores(abs, iter([-1, 2, -3])))
    [1, 2, 3]
    """
    if not callable(score):
        raise TypeError(f"score: expected a function of a document, got {type(score).__name__}")
    if isinstance(documents, (str, bytes, Mapping)):
        raise TypeError(
            f"documents: expected an iterable of documents, got one {type(documents).__name__}; "
            "put a single document into a list"
        )
    if not isinstance(documents, Iterable) and not hasattr(documents, "__getitem__"):
        raise TypeError(f"documents: expected an iterable of documents, got {type(documents).__name__}")
    options = Options(
        n_jobs=n_jobs,
        backend=backend,
        timeout=timeout,
        errors=errors,
        seed=seed,
        chunk=chunk,
        window=window,
        cache=cache,
        depends_on={} if depends_on is None else depends_on,
        document_id=document_id,
        guard=guard,
        progress=progress,
    )
    return ScoreStream(score, documents, options)
