"""The records that describe a scorer, and the scorer under test, which checks call."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.expectations.comparison import Raised, show
from pytest_evalcheck.expectations.failures import NotApplicable, TargetError, note_value
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.convention import Convention, require_conventions
from pytest_evalcheck.kinds.common.intervals import Interval, require_intervals
from pytest_evalcheck.kinds.common.process_state import restored_settings, same_random_numbers
from pytest_evalcheck.kinds.common.subject import EstimatingSubject, Rows, WholeSubject
from pytest_evalcheck.kinds.common.tensors import each_tensor
from pytest_evalcheck.kinds.scorer.declared import Counts, Reducer, Repeated
from pytest_evalcheck.kinds.scorer.judging import Judging

ScoreDocument = Callable[[Any, Any], Any]
"""``function(responses, document)`` returns the score of one document: a number, a text, or several by name."""
Score = Callable[[Any, Any], Iterable[Any]]
"""``score(responses, documents)`` returns one score per document, in their order; ``responses[i]`` is the list of
responses to ``documents[i]``."""
Aggregation = Callable[[Sequence[Any]], Any]

_MOST_SCORES = 100_000


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Way to run a function that scores one document over many of them."""

    run: Callable[[ScoreDocument, Any, Any], Iterable[Any]]
    """``run(function, responses, documents)`` returns one score per document, in their order."""
    processes: bool = False
    """True if documents are scored in other processes, so that one that ends its process ends only a worker."""
    timeout: float | None = None
    """The time limit of a document in seconds. Without one, a document that never ends is not tried."""
    seeded: bool = False
    """True if the random numbers that a function draws depend on its document only, however the work is spread."""
    failed: Callable[[Any], bool] = lambda entry: isinstance(entry, BaseException)
    """Function that tells if an entry among the scores says that its document could not be scored."""
    partial_scores: Callable[[BaseException], Mapping[int, Any] | Sequence[Any] | None] = lambda error: getattr(
        error, "scores", None
    )
    """The other scores, from the error that ended the run: by the index of their document, or all in order."""


@dataclass(frozen=True, kw_only=True)
class Several:
    """A function that returns several numbers of a document by name, and the aggregation of each over all documents."""

    function: ScoreDocument
    aggregations: Mapping[str, Aggregation]


@dataclass(frozen=True, kw_only=True)
class Scorer:
    """Description of what computes scores from responses and documents, as callables. Only ``score`` is required.

    A check that needs a field which is left out is not applicable, e.g. EC403 without ``parallel``.
    """

    score: Score
    """One document after the other."""
    parallel: Mapping[str, Score] = field(default_factory=dict)
    """Functions that compute the same scores in parallel, by name, e.g. ``"2 threads"``."""
    runners: Mapping[str, Runner] = field(default_factory=dict)
    """Runners of any function over documents, by name: checks also run functions that are slow, fail, hang or die."""
    stream: Callable[[Iterable[tuple[Any, Any]]], Iterable[Any]] | None = None
    """From an iterator over pairs of responses and a document to scores one by one."""
    max_alive: int = 1000
    """Number of documents that ``stream`` may keep in memory at once."""
    numbers: Callable[[Sequence[Several], Any, Any], Mapping[str, Any]] | None = None
    """``numbers(functions, responses, documents)``: all functions over all documents, aggregated, by name."""
    summary: Callable[[Any, Any], Any] | None = None
    """``summary(responses, documents)``: the numbers of all documents, by name, such as a mean and its error."""
    intervals: Sequence[Interval] = ()
    """Values of the summary that have an error or an interval."""
    counts: Counts | None = None
    """The numbers of the summary that say how many documents a mean is about."""
    disturbed: Mapping[str, Callable[[Any, Any], Any]] = field(default_factory=dict)
    """Functions that give the summary of a run with a disturbance, such as an error and a second try, by its name."""
    reducer: Reducer | None = None
    """The function that makes one score of the scores of several tries."""
    parts: tuple[str, ...] = ()
    """The names of the metrics or filters that ``together`` can run."""
    together: Callable[[Sequence[str], Any, Any], Iterable[Mapping[str, Any]]] | None = None
    """``together(names, responses, documents)``: for each document the results of these parts, by name."""
    settings: tuple[str, ...] = ("",)
    """The names of what else a score depends on: another model, other arguments, other repeats."""
    cached: Callable[[str, Path], tuple[Score, Score]] | None = None
    """``cached(setting, folder)``: the scorer of a setting without a cache, and with one in a folder."""
    iterators: bool = False
    """True if responses may also come as an iterator, which can be read once."""
    scored_with: Callable[[Callable[..., Any], Any, Any], Iterable[Any]] | None = None
    """``scored_with(function, responses, documents)``: the same with ``function`` in place of the metric function."""
    configuration: Callable[[], Any] | None = None
    """State that scoring must not change, in addition to responses and documents."""
    judging: Judging | None = None
    """The same with another judge, where a model judges the responses."""
    seeded: Callable[[int, Any, Any], Iterable[Any]] | None = None
    """``seeded(seed, responses, documents)``: the scores with a seed, where the scorer draws random numbers."""
    repeated: Repeated | None = None
    """Several runs from one seed, and the spread that is reported of them."""
    conventions: Mapping[str, Convention] = field(default_factory=dict)
    """Other documented ways to call it, by name: each must give the same scores."""
    source: Any = None
    """The object behind the callables."""

    def __post_init__(self) -> None:
        require_conventions(self)
        require_intervals(self)
        without = [name for name in ("intervals", "counts", "disturbed") if getattr(self, name) and not self.summary]
        if without:
            raise TypeError(f"{without[0]} without a summary; expected summary=, a function of responses and documents")
        if bool(self.parts) != (self.together is not None):
            raise TypeError(f"parts={self.parts!r}, together={self.together!r}; expected both or neither")

    def contents(self) -> dict[str, Any]:
        """Return what must not change in a scorer that is only copied."""
        return dict(getattr(self.source, "__dict__", {}))

    @classmethod
    def of(cls, function: ScoreDocument, *, runners: Mapping[str, Runner] | None = None, **fields: Any) -> Scorer:
        """The record of a function that scores one document, and of what runs such functions in parallel.

        >>> scorer = Scorer.of(lambda responses, document: responses[0] == document["answer"])
        >>> scorer.score([["4"], ["6"]], [{"answer": "4"}, {"answer": "5"}])
        [True, False]
        """
        if not callable(function):
            raise TypeError(f"{function!r} is not a function; expected function(responses, document)")
        runners = runners or {}
        parallel = {name: partial(runner.run, function) for name, runner in runners.items()}
        score = partial(score_one_by_one, function)
        return cls(**{"score": score, "parallel": parallel, "runners": runners, "source": function, **fields})


def score_one_by_one(function: ScoreDocument, responses: Iterable[Any], documents: Iterable[Any]) -> list[Any]:
    """The scores of documents, each by itself."""
    return [called(function, own, document) for own, document in zip(responses, documents, strict=True)]


def as_list(scores: Any) -> list[Any]:
    """One entry per document; iterators become lists, outside and inside.

    Raises:
        TargetError: where the scores cannot be iterated over, are a text or a mapping, or have no end.
    """
    if isinstance(scores, (str, bytes, Mapping)) or not hasattr(scores, "__iter__"):
        raise TargetError(
            "score() gave no list of scores",
            actual=f"{type(scores).__name__}: {show(scores)}",
            expected="one score per document, in the order of the documents",
            cause="scores",
        )
    entries = [_read(score) for score in islice(scores, _MOST_SCORES)]
    if len(entries) == _MOST_SCORES:
        actual = f"{_MOST_SCORES} and more"
        raise TargetError("score() returned endless scores", actual=actual, expected="one per document", cause="scores")
    return entries


def _listed(score: Score) -> Callable[[Any, Any], list[Any]]:
    def listed(responses: Any, documents: Any) -> list[Any]:
        return as_list(called(score, responses, documents))

    return listed


def _read(score: Any) -> Any:
    return [_read(part) for part in score] if isinstance(score, Iterator) else score


@dataclass(frozen=True)
class ScorerSubject(WholeSubject, EstimatingSubject):
    """The scorer under test: new ones on demand, and responses and documents for them."""

    kind: ClassVar[str] = "scorer"

    build: Callable[[], Scorer]

    @cached_property
    def record(self) -> Scorer:
        """A record of the scorer whose fields are read and whose functions are not called."""
        return self.build()

    def collate(self, rows: Rows, *, copied: bool = True) -> tuple[list[Any], list[Any]]:
        """Responses and documents of these samples, which are new unless ``copied`` is false.

        Raises:
            TargetError: where the collate gives anything else.
        """
        # Copies, so that what is written into a part of a document shows every time, and not in the case.
        pair = attempt("the collate", self.inputs.collate, copy.deepcopy(list(rows)) if copied else list(rows))
        sizes = [len(part) if isinstance(part, list) else -1 for part in pair] if isinstance(pair, tuple) else []
        if sizes != [len(rows)] * 2:
            raise TargetError(
                "the collate did not give responses and documents",
                actual=str(pair)[:200],
                expected=f"two lists of {len(rows)}: (responses, documents)",
                cause="collate",
            )
        if self.device == "cpu":
            return pair  # type: ignore[no-any-return]
        # As outputs of a model, tensors are on the device.
        return each_tensor((pair[0], pair[1]), lambda tensor: tensor.to(self.device))  # type: ignore[no-any-return]

    def scores(self, rows: Rows, score: Score | None = None, *, reseed: bool = True) -> Any:
        """The scores of a new scorer, or those that ``score`` gives, as a list; or the error."""
        return self.run(score or self.build().score, *self.collate(rows), reseed=reseed)

    def plain_result(self, rows: Rows) -> Any:
        """The scores of a new scorer, or the error."""
        return self.scores(rows)

    def device_results(self, rows: Rows) -> Iterator[tuple[str, Any]]:
        """The scores, one document after the other, and those of its parts together."""
        yield "score()", self.scores(rows)
        if parts := self.record.parts:
            yield "together()", self.together(parts, rows)

    def shared(self) -> Any:
        """The configuration of a scorer: one that others share is written by the first of them that scores."""
        return self.record.configuration() if self.record.configuration else None

    def remedies(self, rows: Rows) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Arguments in the other order, and one document at a time."""
        responses, documents = self.collate(rows)
        score = self.build().score
        yield "exchange the two arguments: `score(responses, documents)`", lambda: self.run(score, documents, responses)

        def scored_singly() -> Any:
            return self.run(lambda all_own, all_rows: list(map(score, all_own, all_rows)), responses, documents)

        yield "it is given all documents at once and returns a list, one score per document", scored_singly

    def run(self, score: Score, responses: Any, documents: Any, *, reseed: bool = True) -> Any:
        """The scores as a list, or the error; with ``reseed`` from the same random numbers every time."""
        with restored_settings(), same_random_numbers() if reseed else nullcontext():
            scores = attempt("score", _listed(score), responses, documents)
        for entry in scores if isinstance(scores, list) else ():
            note_value(entry)
        return scores

    def estimates(self, rows: Rows, size: int | None = None) -> Any:
        """The summary of a new scorer for these documents, or the error.

        Raises:
            NotApplicable: where it gives none.
        """
        del size
        if self.record.summary is None:
            raise NotApplicable("the scorer gives no summary: ec.Scorer(..., summary=...)")
        # Copies of all documents would take longer than most summaries; the check has some of its own.
        return self.summarised(self.build().summary, rows, copied=False)

    def summarised(self, summary: Any, rows: Rows, *, copied: bool = True) -> Any:
        """The numbers that a function of responses and documents gives for these documents, or the error."""
        with restored_settings():
            return attempt("summary", summary, *self.collate(rows, copied=copied))

    def scores_one_by_one(self, rows: Rows) -> list[Any]:
        """Return what each sample gets by itself: its score, or the error."""
        results = [self.scores([row]) for row in rows]
        return [scores[0] if isinstance(scores, list) and len(scores) == 1 else scores for scores in results]

    def numbers(self, functions: Sequence[Several], rows: Rows) -> Any:
        """All numbers by name, or the error.

        Raises:
            NotApplicable: where the scorer has no ``numbers``.
        """
        run = self.build().numbers
        if run is None:
            raise NotApplicable("the scorer does not compute several numbers with one function")
        with restored_settings():
            numbers = attempt("numbers", lambda: called(run, functions, *self.collate(rows)))
        if not isinstance(numbers, (Raised, Mapping)):
            raise TargetError(
                "numbers() gave no mapping", actual=str(numbers)[:200], expected="numbers by name", cause="numbers"
            )
        return numbers

    def together(self, names: Sequence[str], rows: Rows) -> Any:
        """Return what the documents get from each of ``names``, or the error."""
        run = self.build().together
        assert run is not None
        scores = self.run(partial(run, tuple(names)), *self.collate(rows))
        return scores if isinstance(scores, Raised) else {name: [own.get(name) for own in scores] for name in names}
