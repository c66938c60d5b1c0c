"""What a check may do with a scorer: the records that describe one, and the subject that checks call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.common.calling import TargetError, attempt
from pytest_evalcheck.kinds.common.process_state import kept, same_random_numbers
from pytest_evalcheck.kinds.common.subject import Rows, Subject
from pytest_evalcheck.kinds.scorer.scores import listed

One = Callable[[Any, Any], Any]
"""``one(responses, document)`` gives the score of one document: a number, a text, or a mapping of them by name."""
Score = Callable[[Any, Any], Iterable[Any]]
"""``score(responses, documents)`` gives one score a document, in their order; ``responses[i]`` is the list of responses
to ``documents[i]``."""
Aggregation = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True, kw_only=True)
class Runner:
    """How a function that scores one document is run over many of them."""

    run: Callable[[One, Any, Any], Iterable[Any]]
    """``run(one, responses, documents)`` gives one score a document, in their order."""
    processes: bool = False
    """Whether documents are scored in other processes, so that one that ends its process ends only a worker."""
    timeout: float | None = None
    """The seconds that it gives to a document. Without any a document that never ends is not tried."""
    seeded: bool = False
    """Whether a function that draws random numbers gets those of its document, however the work is spread."""
    failed: Callable[[Any], bool] = lambda entry: isinstance(entry, BaseException)
    """Whether an entry among the scores says that its document could not be scored."""
    salvaged: Callable[[BaseException], Mapping[int, Any] | Sequence[Any] | None] = lambda error: getattr(
        error, "scores", None
    )
    """The other scores, which an error carries that ended the run: by the index of their document, or all in order."""


@dataclass(frozen=True, kw_only=True)
class Several:
    """A function that gives several numbers of a document by name, and how each becomes one number of them all."""

    one: One
    aggregations: Mapping[str, Aggregation]


@dataclass(frozen=True, kw_only=True)
class Scorer:
    """What makes scores of responses and documents, as callables. Only ``score`` is needed.

    What is left out is reported as not applicable, e.g. EC403 without ``parallel``.
    """

    score: Score
    """One document after the other."""
    parallel: Mapping[str, Score] = field(default_factory=dict)
    """By name, e.g. ``"2 threads"``, ways to get the same scores in parallel."""
    runners: Mapping[str, Runner] = field(default_factory=dict)
    """By name, what runs any function over documents: it is also given ones that are slow, fail, hang or die."""
    stream: Callable[[Iterable[tuple[Any, Any]]], Iterable[Any]] | None = None
    """From pairs of responses and a document, which are made while they are asked for, to scores one by one."""
    held: int = 1000
    """How many documents ``stream`` may hold at once."""
    numbers: Callable[[Sequence[Several], Any, Any], Mapping[str, Any]] | None = None
    """``numbers(functions, responses, documents)``: all functions over all documents, aggregated, by name."""
    parts: tuple[str, ...] = ()
    """The names of the metrics or filters that ``together`` can run."""
    together: Callable[[Sequence[str], Any, Any], Iterable[Mapping[str, Any]]] | None = None
    """``together(names, responses, documents)``: for each document what these parts give, by name."""
    settings: tuple[str, ...] = ("",)
    """The names of what else a score depends on: another model, other arguments, other repeats."""
    cached: Callable[[str, Path], tuple[Score, Score]] | None = None
    """``cached(setting, folder)``: the scorer of a setting without a cache, and with one that is kept in a folder."""
    iterators: bool = False
    """Whether responses may also come as an iterator, which can be read once."""
    configuration: Callable[[], Any] | None = None
    """What scoring may not change beside responses and documents."""
    source: Any = None
    """The object behind the callables."""

    def __post_init__(self) -> None:
        if bool(self.parts) != (self.together is not None):
            raise TypeError(f"parts={self.parts!r}, together={self.together!r}; expected both or neither")

    def contents(self) -> dict[str, Any]:
        """What nobody may change in a scorer that is only copied."""
        return dict(getattr(self.source, "__dict__", {}))

    @classmethod
    def of(cls, one: One, *, runners: Mapping[str, Runner] | None = None, **more: Any) -> Scorer:
        """The record of a function that scores one document, and of what runs such functions in parallel.

        >>> scorer = Scorer.of(lambda responses, document: responses[0] == document["answer"])
        >>> scorer.score([["4"], ["6"]], [{"answer": "4"}, {"answer": "5"}])
        [True, False]
        """
        if not callable(one):
            raise TypeError(f"{one!r} is no function; expected one(responses, document)")
        parallel = {name: partial(runner.run, one) for name, runner in (runners or {}).items()}
        fields = {"score": partial(one_by_one, one), "parallel": parallel, "runners": runners or {}, "source": one}
        return cls(**{**fields, **more})


def one_by_one(one: One, responses: Iterable[Any], documents: Iterable[Any]) -> list[Any]:
    """The scores of documents, each by itself."""
    return [one(those, document) for those, document in zip(responses, documents, strict=True)]


@dataclass(frozen=True)
class ScorerSubject(Subject):
    """The scorer under test: new ones on demand, and the responses and documents to give them."""

    kind: ClassVar[str] = "scorer"

    build: Callable[[], Scorer]

    @cached_property
    def record(self) -> Scorer:
        """What describes the scorer, to be asked and not to be called."""
        return self.build()

    def given(self, rows: Rows) -> tuple[list[Any], list[Any]]:
        """New responses and documents of these samples.

        Raises:
            TargetError: where the collate gives anything else.
        """
        made = attempt("the collate", self.inputs.collate, list(rows))
        sizes = [len(part) if isinstance(part, list) else -1 for part in made] if isinstance(made, tuple) else []
        if sizes != [len(rows)] * 2:
            raise TargetError(
                "the collate did not give responses and documents",
                actual=str(made)[:200],
                expected=f"two lists of {len(rows)}: (responses, documents)",
                cause="collate",
            )
        return made[0], made[1]

    def scores(self, rows: Rows, score: Score | None = None) -> Any:
        """The scores of a new scorer, or of one of the ways to run it, as a list; or the error."""
        return self.run(score or self.build().score, *self.given(rows))

    def run(self, score: Score, responses: Any, documents: Any) -> Any:
        """The scores as a list, or the error; from the same random numbers every time."""
        with kept(), same_random_numbers():
            return attempt("score", lambda: listed(score(responses, documents)))

    def alone(self, rows: Rows) -> list[Any]:
        """What each sample gets by itself: its score, or the error."""
        return [self._first(self.scores([row])) for row in rows]

    def numbers(self, functions: Sequence[Several], rows: Rows) -> Any:
        """All numbers by name, or the error.

        Raises:
            NotApplicable: where the scorer offers no such run.
        """
        run = self.build().numbers
        if run is None:
            raise NotApplicable("the scorer does not make several numbers of one function")
        with kept():
            made = attempt("numbers", lambda: run(functions, *self.given(rows)))
        if not isinstance(made, (Raised, Mapping)):
            raise TargetError(
                "numbers() gave no mapping", actual=str(made)[:200], expected="numbers by name", cause="numbers"
            )
        return made

    def together(self, names: Sequence[str], rows: Rows) -> Any:
        """For each of ``names``, what the documents got from it; or the error."""
        run = self.build().together
        assert run is not None
        seen = self.run(partial(run, tuple(names)), *self.given(rows))
        return seen if isinstance(seen, Raised) else {name: [one.get(name) for one in seen] for name in names}

    def _first(self, scores: Any) -> Any:
        return scores[0] if isinstance(scores, list) and len(scores) == 1 else scores
