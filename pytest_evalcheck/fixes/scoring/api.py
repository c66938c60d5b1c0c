"""The two functions that score documents."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from types import SimpleNamespace
from typing import Any, Literal

from pytest_evalcheck.errors import did_you_mean, nearest_word
from pytest_evalcheck.fixes.scoring.backends import BACKENDS, JOBLIB_NAMES
from pytest_evalcheck.fixes.scoring.cache import ScoreCache
from pytest_evalcheck.fixes.scoring.errors import DocumentError, ScoringError
from pytest_evalcheck.fixes.scoring.scheduler import RunReport
from pytest_evalcheck.fixes.scoring.stream import ScoreStream


class Scores(list[Any]):
    """Scores in document order: a list with a report.

    ``errors`` are the `DocumentError` in place of missing scores, ``nan`` the indices of scores that are NaN or, for a
    mapping of numbers, hold one; ``report`` is the `RunReport` of the run.
    """

    def __init__(self, scores: Iterable[Any], report: RunReport) -> None:
        super().__init__(scores)
        self.report = report
        self.errors = [score for score in self if isinstance(score, DocumentError)] if report.failed else []
        self.nan = [index for index, score in enumerate(self) if _has_nan(score)]


def _has_nan(score: Any) -> bool:
    if isinstance(score, float):  # first, as it is the faster question
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
    version: str | float | None = None,
    depends_on: Collection[Any] | Mapping[str, Any] | None = None,
    document_id: str | Callable[[Any], Any] = "id",
    guard: bool = False,
    progress: bool | Callable[[int], Any] = False,
) -> Scores:
    """Score every document, and return the scores in document order.

    All documents are scored, also when some fail: with ``errors="raise"`` one `ScoringError` then names all of those
    and has the scores of the others; with "record" a `DocumentError` is in place of a score. The keywords are those of
    `stream_scores`.

    >>> score_documents(len, ["a", "bc", ""])
    [1, 2, 0]

    `ParallelFilter` brings it to lm-eval; a `RunReport` says where documents were scored.

    Symptom: one document that fails, hangs or dies takes the scores of all others with it.

    Before::

        from concurrent.futures import ThreadPoolExecutor

        def scores(score, documents):
            with ThreadPoolExecutor(2) as pool:
                return list(pool.map(score, documents))

    After::

        from pytest_evalcheck.fixes.scoring import score_documents

        def scores(score, documents):
            return score_documents(score, documents, backend="threads", n_jobs=2, errors="record")

    Costs: microseconds for a document in this process; processes are started only where they are faster.

    Target: ec.scorer(inputs=es.responses()) with runner(scores)

    Shown by: EC404.
    """
    stream = stream_scores(**locals())
    scores = Scores((score for block in stream.blocks() for score in block), stream.report)
    if scores.errors and errors == "raise":
        raise ScoringError(scores.errors, scores) from scores.errors[0].__cause__
    return scores


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
    version: str | float | None = None,
    depends_on: Collection[Any] | Mapping[str, Any] | None = None,
    document_id: str | Callable[[Any], Any] = "id",
    guard: bool = False,
    progress: bool | Callable[[int], Any] = False,
) -> ScoreStream:
    """Score a stream of documents; iterate over the result for the scores, in document order.

    ``documents`` is read once, in the thread that takes the scores, and only ``window`` documents ahead (by default
    as many as keep the workers busy), so memory does not grow with their number.

    * ``backend``: "serial" (in this process), "threads", "processes", "dask" or "ray" (a cluster that there is a
      client of), "joblib" (what ``joblib.parallel_config`` says), or "auto": documents are scored in this process
      until it is clear from what they take that processes would be faster.
    * ``n_jobs``: the number of workers; -1, like None, means one per core.
    * ``timeout``: seconds that a document may take. One that does not react to an exception is ended with its
      process. Needs processes; "auto" is "processes" then.
    * ``errors``: "raise" raises the `DocumentError` of a document in its turn; "record" yields it in place of a score.
      A worker that dies is a failure of the document that killed it, and of no other.
    * ``seed``: before every document the global generators of Python, NumPy and torch are seeded with
      ``document_seed(seed, document)``, and restored afterwards; None leaves them alone. Threads share their
      generators, so nothing is seeded there, and a warning reports random draws.
    * ``chunk``: documents sent at a time; "auto" measures, and makes sending a small part of the work.
    * ``cache``: a file for scores, found again by the function's own code, the document, the seed, ``version`` and
      ``depends_on``. Where neither is given, only a function of built-in functions and constants is cached; for others
      a warning says so.
    * ``version``: a text or a number that you change when the scores change.
    * ``depends_on``: a list of what the scores depend on: functions, classes, modules, names of modules and packages,
      a ``Path`` for the content of its file or folder; or a mapping of names to values, also as an item of the list.
      Nothing else that the function uses is looked at: name the model and the helpers too.
    * ``document_id``: the key of a document's id, or a function that returns it, for error messages.
    * ``guard``: fail a document that the function wrote into, at the cost of pickling it twice.
    * ``progress``: True for a bar (tqdm), or a function that is called with the number of newly finished documents.

    >>> list(stream_scores(abs, iter([-1, 2, -3])))
    [1, 2, 3]

    Symptom: memory grows with the number of documents.

    Before::

        def stream(documents):
            waiting = list(documents)
            return (score(document) for document in waiting)

    After::

        from pytest_evalcheck.fixes.scoring import stream_scores

        def stream(documents):
            return stream_scores(score, documents, backend="threads", n_jobs=2, window=64)

    Costs: those of `score_documents`.

    Target: ec.scorer(inputs=es.responses()) with streamed(stream)

    Shown by: EC405.
    """
    options = SimpleNamespace(**locals())
    if not callable(score):
        raise TypeError(f"score: expected a function of a document, got {type(score).__name__}")
    if isinstance(documents, (str, bytes, Mapping)):
        kind = type(documents).__name__
        raise TypeError(f"documents: expected an iterable of documents, got one {kind}; put one document into a list")
    if not isinstance(documents, Iterable) and not hasattr(documents, "__getitem__"):
        raise TypeError(f"documents: expected an iterable of documents, got {type(documents).__name__}")
    if backend not in BACKENDS:
        near = nearest_word(str(backend), [*BACKENDS, *JOBLIB_NAMES])
        hint = did_you_mean(JOBLIB_NAMES.get(near, near))
        raise ValueError(f"backend: expected one of {', '.join(map(repr, BACKENDS))}, got {backend!r}{hint}")
    for name, (expected, right) in _EXPECTED.items():
        value = getattr(options, name)
        if not right(value):
            kinds = (int, float, str)
            raise (ValueError if isinstance(value, kinds) else TypeError)(f"{name}: expected {expected}, got {value!r}")
    return ScoreStream(score, documents, options)


def _whole(value: Any, least: float = -math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


# What every keyword expects, and whether a value is that.
_EXPECTED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "n_jobs": (
        "a whole number of workers, or -1 for all cores",
        lambda value: value is None or (_whole(value) and value != 0),
    ),
    "timeout": (
        "a number of seconds above 0, or None",
        lambda value: value is None or (isinstance(value, (int, float)) and value is not True and value > 0),
    ),
    "errors": ("one of 'raise', 'record'", lambda value: value in ("raise", "record")),
    "seed": ("a whole number, or None", lambda value: value is None or _whole(value)),
    "chunk": ('"auto" or a number of documents, 1 or more', lambda value: value == "auto" or _whole(value, 1)),
    "window": ("a number of documents, 1 or more", lambda value: value is None or _whole(value, 1)),
    "cache": ("a path or a ScoreCache", lambda value: isinstance(value, (type(None), str, os.PathLike, ScoreCache))),
    "version": (
        "a text or a number",
        lambda value: value is None or (isinstance(value, (str, int, float)) and value != "" and value is not True),
    ),
    "depends_on": (
        "a list of functions, modules, packages and paths, or a mapping of names to values",
        lambda value: isinstance(value, (type(None), Mapping, list, tuple, Set)),
    ),
    "document_id": ("a key or a function of a document", lambda value: isinstance(value, str) or callable(value)),
}
