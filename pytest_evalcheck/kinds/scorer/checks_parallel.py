"""EC403 to EC405: scoring many documents at once equals scoring them one after the other, and none is lost."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any

from pytest_evalcheck.expectations.comparison import EXACT, Raised, difference
from pytest_evalcheck.expectations.failures import NotApplicable, expect
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.scorer.cases import Documents, FaultyDocument, ManyDocuments
from pytest_evalcheck.kinds.scorer.stub_scorers import FailingScorer, RandomScorer, SlowScorer, stable_score, text_of
from pytest_evalcheck.kinds.scorer.subject import Runner, ScorerSubject, score_one_by_one


@check("EC403", conditions=("many documents", "fewer documents than workers"), examples=8, after=("EC401",))
def parallel_scores_equal_serial_scores(scorer: ScorerSubject, case: ManyDocuments) -> None:
    """Parallel scoring gives what serial scoring gives, bit by bit, with any number of workers.

    Why: a score must not depend on which worker finishes first.
    Usual cause: a shared counter or buffer; if only the order differs, results in the order of completion; if
    `random-scores` fails, random numbers from a shared generator.
    Fix: pytest_evalcheck.fixes.scoring.score_documents
    """
    record = scorer.build()
    if not record.parallel and not record.runners:
        raise NotApplicable("the scorer offers no parallel way")
    expected = scorer.scores(case.documents)
    for name, score in record.parallel.items():
        actual = scorer.scores(case.documents, score)
        expect(actual).equals(expected, about=f"the scores by {name}", id=f"by-{slug(name)}", tolerance=EXACT)
    responses, documents = scorer.collate(case.documents)
    slow, random_scores = SlowScorer(text_of(documents[0])), None
    for name, runner in record.runners.items():
        actual = scorer.run(partial(runner.run, slow), responses, documents)
        about = f"the scores by {name}, of a function that takes longer for the first document"
        scores = score_one_by_one(stable_score, responses, documents)
        expect(actual).equals(scores, about=about, id=f"by-{slug(name)}", tolerance=EXACT)
        if runner.seeded:
            actual = scorer.run(partial(runner.run, RandomScorer()), responses, documents)
            random_scores = actual if random_scores is None else random_scores
            about = f"the scores by {name}, of a function that draws random numbers"
            expect(actual).equals(random_scores, about=about, id=f"random-scores-by-{slug(name)}", tolerance=EXACT)


@check("EC404", conditions=("the first document", "the last document"), examples=4, after=("EC401", "EC403"))
def an_error_names_its_document_and_keeps_the_other_scores(scorer: ScorerSubject, case: FaultyDocument) -> None:
    """An error names its document, the other scores are kept, and nothing hangs.

    Tried are errors, worker processes that end, and documents that never end.

    Why: after hours of scoring one document that cannot be parsed must not cost all others, nor count as zero.
    Usual cause: the first exception ends the run, a dead worker is never noticed, or errors become scores.
    Fix: pytest_evalcheck.fixes.scoring.score_documents
    """
    record = scorer.build()
    if not record.runners:
        raise NotApplicable("the scorer takes no other function, so a function that fails cannot be tried")
    responses, documents = scorer.collate(case.samples)
    document = documents[case.index]
    lost = [index for index, other in enumerate(documents) if other == document]
    scores = score_one_by_one(stable_score, responses, documents)
    expected = {index: score for index, score in enumerate(scores) if index not in lost}
    for name, runner in record.runners.items():
        failures = ["raises", "raises what cannot be pickled"]
        failures += ["ends its process"] * runner.processes + ["never ends"] * bool(runner.timeout)
        for failure in failures:
            actual = scorer.run(partial(runner.run, FailingScorer(text_of(document), failure)), responses, documents)
            about = f"by {name}, when the function {failure} for document {case.index}"
            others, where = successful_scores(actual, runner), f"by-{slug(name)}-where-one-{slug(failure)}"
            expect(others).equals(expected, about=f"the other scores {about}", id=f"other-scores-{where}")
            if isinstance(actual, Raised):
                named = names_document(actual.error, lost, document)
                about = f"the error does not name its document {about}"
                expect(actual).holds(named, about=about, id=f"named-document-{where}", detail=str(actual))


@check("EC405", examples=1, after=("EC401",), severity="cost")
def streaming_documents_uses_bounded_memory(scorer: ScorerSubject, case: Documents) -> None:
    """Memory stays bounded while documents stream: no more of them are in memory at once than the scorer declares.

    Why: a data set of a million generations does not fit into memory twice.
    Usual cause: the stream becomes a list, or all work is handed to the workers before the first is done.
    Fix: pytest_evalcheck.fixes.scoring.score_documents
    """
    record = scorer.build()
    if record.stream is None:
        raise NotApplicable("the scorer takes no stream of documents")
    pairs = zip(*scorer.collate(case.samples), strict=True)
    if not all(isinstance(document, dict) and isinstance(own, list) for own, document in pairs):
        raise NotApplicable("only documents that are mappings, with lists of responses, can be watched")
    expected = scorer.scores_one_by_one(case.samples)
    count = 3 * record.max_alive
    stats = watch_stream(record.stream, lambda: scorer.collate(case.samples), expected, count)
    expect(stats.wrong).equals(
        None, about="the first score of the stream that is not the one of its document", id="first-wrong-score"
    )
    expect(stats.scores).equals(count, about=f"the scores of a stream of {count} documents", id="number-of-scores")
    about = f"of {count} documents {stats.max_alive} were in memory at once, {record.max_alive} are allowed"
    expect(stats.max_alive).holds(stats.max_alive <= record.max_alive, about=about, id="documents-in-memory")


def successful_scores(actual: Any, runner: Runner) -> dict[int, Any]:
    """The scores by the index of their document, of a list with failed entries or of an error that carries others."""
    if isinstance(actual, Raised):
        actual = runner.partial_scores(actual.error) or {}
        if isinstance(actual, Mapping):
            return dict(actual)
    return {index: score for index, score in enumerate(actual) if not runner.failed(score)}


def names_document(error: BaseException, indices: Sequence[int], document: Any) -> bool:
    """Return whether an error, its notes or its causes name a document by index, as a whole or by a field."""
    texts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(texts) < 10:
        texts += [str(cause), *getattr(cause, "__notes__", [])]
        cause = cause.__cause__ or cause.__context__
    fields = document.values() if isinstance(document, Mapping) else [document]
    names = [*map(str, indices), repr(document)]
    names += [field for field in fields if isinstance(field, str) and len(field) > 1]
    return any(re.search(rf"\b{re.escape(name)}\b", "\n".join(texts)) for name in names)


class _Responses(list):  # type: ignore[type-arg]
    """A list with weak references."""

    __slots__ = ("__weakref__",)


class _Document(dict):  # type: ignore[type-arg]
    """A mapping with weak references."""

    __slots__ = ("__weakref__",)


@dataclass
class StreamStats:
    """Observations of a stream."""

    scores: int = 0
    max_alive: int = 0
    """The most documents, or their responses, that were alive at once, including the one just asked for."""
    wrong: str | None = None
    """The first score that is not the one of its document."""


def watch_stream(
    stream: Callable[[Iterable[Any]], Iterable[Any]],
    collate: Callable[[], tuple[list[Any], list[Any]]],
    expected: Sequence[Any],
    count: int,
) -> StreamStats:
    """Feed ``count`` documents, those of ``collate`` repeated, and read the scores as they come."""
    stats, alive = StreamStats(), dict[int, Any]()

    def watched(item: Any) -> Any:
        reference = weakref.ref(item, lambda gone: alive.pop(id(gone), None))
        alive[id(reference)] = reference
        return item

    def pair(own: Any, row: Any, index: int) -> tuple[Any, Any]:  # no name of ours may keep a document alive
        made = watched(_Responses(own)), watched(_Document(row))
        if len(alive) > 200 and index % 100 == 0:
            gc.collect()  # what is part of a reference cycle only waits to be collected
        stats.max_alive = max(stats.max_alive, (len(alive) + 1) // 2)  # both of a pair are watched
        return made

    def pairs() -> Iterator[tuple[Any, Any]]:
        responses, rows = collate()
        for index, own, row in zip(range(count), cycle(responses), cycle(rows), strict=False):
            yield pair(own, row, index)

    for score, own in zip(stream(pairs()), cycle(expected), strict=False):
        stats.scores += 1
        found = difference(score, own, EXACT)
        if found is not None and stats.wrong is None:
            stats.wrong = f"score {stats.scores - 1}: {found}"
    return stats
