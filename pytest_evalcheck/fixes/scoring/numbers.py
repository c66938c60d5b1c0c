"""Several numbers from one computation, each with its own aggregation, its own direction and its own denominator."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evalcheck.errors import nearest
from pytest_evalcheck.fixes.scoring.errors import DocumentError, identified
from pytest_evalcheck.fixes.scoring.pass_at_k import pass_at_k

Aggregation = Callable[[list[Any]], Any]
# By the names that lm-eval has for them, so that it finds its own standard errors.
AGGREGATIONS: dict[str, Aggregation] = {"mean": statistics.fmean, "median": statistics.median}
ERROR, SKIP = "error", "skip"
# Fields of lm-eval's record of a sample, which a number of that name would overwrite.
_TAKEN = {
    "arguments",
    "doc",
    "doc_hash",
    "doc_id",
    "filter",
    "filtered_resps",
    "metrics",
    "prompt_hash",
    "resps",
    "target",
    "target_hash",
}


class NumberError(Exception):
    """A score function did not return the numbers that were declared; the message names the document."""


@dataclass(frozen=True)
class Number:
    """One of the numbers that a score function returns for a document.

    ``aggregation`` makes one number of those of all documents: "mean", "median", or a function of their list.
    ``missing`` says what a document counts whose score lacks this number: "error", it raises a `NumberError`; "skip",
    nothing, and the denominator is smaller by one; or a value, such as 0.0, and the denominator stays.
    """

    aggregation: Aggregation | str = "mean"
    higher_is_better: bool = True
    missing: float | str = ERROR

    def __post_init__(self) -> None:
        if not callable(self.aggregation) and self.aggregation not in AGGREGATIONS:
            expected = f"{_alternatives(AGGREGATIONS)} or a function"
            raise ValueError(f"aggregation: expected {expected}, got {self.aggregation!r}")
        if isinstance(self.missing, str) and self.missing not in (ERROR, SKIP):
            raise ValueError(f"missing: expected 'error', 'skip' or a value that counts, got {self.missing!r}")

    def aggregate(self, values: list[Any]) -> Any:
        """Aggregate the values of documents; NaN for none."""
        if not values:
            return math.nan
        return (self.aggregation if callable(self.aggregation) else AGGREGATIONS[self.aggregation])(values)


@dataclass(frozen=True)
class Summary:
    """Aggregated numbers of all documents.

    ``values`` holds each number, aggregated; ``counts`` over how many documents, and ``nan`` which of them are NaN;
    ``failed`` are the indices of documents that have no score at all.
    """

    values: dict[str, Any]
    counts: dict[str, int]
    nan: dict[str, list[int]] = field(default_factory=dict)
    failed: list[int] = field(default_factory=list)


class Numbers:
    """The numbers that one call of a score function gives, declared once.

    ``score`` is a function of the responses of a document and of the document, for use without a filter that has
    scored before. ``failed`` says what a document counts that could not be scored (its score is a `DocumentError`):
    "error", "skip", or a mapping of values, such as ``{"pass@1": 0.0, "pass@5": 0.0}``.

    >>> numbers = Numbers({"pass@1": Number(), "worst": Number(min)})
    >>> numbers.aggregate([{"pass@1": 1.0, "worst": 3}, {"pass@1": 0.0, "worst": 2}]).values
    {'pass@1': 0.5, 'worst': 2}

    `pass_at` gives such numbers of the responses to a document.

    Symptom: several numbers of one function: it is computed once for each of them.

    Before::

        def aggregated(score, documents, how):
            return {name: each([score(one)[name] for one in documents]) for name, each in how.items()}

    After::

        from pytest_evalcheck.fixes.scoring import Number, Numbers, score_documents

        def aggregated(score, documents, how):
            numbers = Numbers({name: Number(each) for name, each in how.items()})
            return numbers.aggregate(score_documents(score, documents)).values

    Costs: nothing beside the mapping of each document.

    Target: ec.scorer(inputs=es.responses()) with several(aggregated)

    Shown by: EC406.
    """

    def __init__(
        self,
        numbers: Mapping[str, Number],
        *,
        score: Callable[[Any, Any], Mapping[str, Any]] | None = None,
        failed: str | Mapping[str, Any] = ERROR,
    ) -> None:
        if not numbers:
            raise ValueError("numbers: expected at least one")
        for name, number in numbers.items():
            _check(name, number)
        if isinstance(failed, str) and failed not in (ERROR, SKIP):
            raise ValueError(f"failed: expected 'error', 'skip' or a mapping of values, got {failed!r}")
        if score is not None and not callable(score):
            raise TypeError(f"score: expected a function of responses and a document, got {type(score).__name__}")
        self.numbers = dict(numbers)
        self._score = score
        self._failed = failed if isinstance(failed, str) else self.checked(failed, "failed")

    def __or__(self, other: Numbers) -> Numbers:
        """Join the numbers of two score functions; ValueError where both have one of the same name."""
        both = sorted(self.numbers.keys() & other.numbers.keys())
        if both:
            raise ValueError(f"numbers: both have {_listed(both)}; rename one, or a value would overwrite the other")
        if self._score or other._score or self._failed != other._failed:
            raise ValueError("numbers: only those without a score function and with one way to count failures join")
        return Numbers({**self.numbers, **other.numbers}, failed=self._failed)

    def checked(self, scored: Any, where: str) -> dict[str, Any]:
        """Return the declared numbers of one document, in their order; NumberError, naming ``where``, if it differs."""
        if isinstance(scored, DocumentError):
            if self._failed == ERROR:
                raise NumberError(f"{where}: {scored}; failed= says what such a document counts") from scored
            return {} if isinstance(self._failed, str) else dict(self._failed)
        if not isinstance(scored, Mapping):
            names = _listed(self.numbers)
            raise NumberError(f"{where}: expected a mapping with {names}, got {type(scored).__name__} {_short(scored)}")
        for name in scored:
            if name not in self.numbers:
                hint = nearest(str(name), self.numbers)
                raise NumberError(f"{where}: the score has {name!r}, which is not declared{hint}")
        return {name: value for name, value in self._filled(scored, where) if value is not SKIP}

    def _filled(self, scored: Mapping[str, Any], where: str) -> Iterable[tuple[str, Any]]:
        for name, number in self.numbers.items():
            if name not in scored and number.missing == ERROR:
                raise NumberError(
                    f"{where}: the score lacks {name!r}; it has {_listed(scored)}. missing= says what counts"
                )
            yield name, scored.get(name, number.missing)

    def process_results(self, doc: Any, results: Sequence[Any]) -> dict[str, Any]:
        """Be lm-eval's ``process_results``: the numbers of a document, from what the filters left of its responses.

        Without a score function that is the score itself, which a `ParallelFilter` put there.
        """
        found = identified(doc, "id")
        where = "a document" if found is None else f"document {found!r}"
        if len(results) != 1:
            raise NumberError(f"{where}: expected one result of the filters, got {len(results)}")
        if self._score is None or isinstance(results[0], DocumentError):
            return self.checked(results[0], where)
        return self.checked(self._score(results[0], doc), where)

    def metric_list(self) -> list[dict[str, Any]]:
        """Be lm-eval's ``metric_list``: every number with its own aggregation and direction."""
        return [
            {"metric": name, "aggregation": each.aggregation, "higher_is_better": each.higher_is_better}
            for name, each in self.numbers.items()
        ]

    def aggregate(self, scores: Iterable[Any]) -> Summary:
        """Aggregate the scores of all documents, each number over the documents that have it."""
        values: dict[str, list[Any]] = {name: [] for name in self.numbers}
        nan: dict[str, list[int]] = {}
        failed = []
        for index, scored in enumerate(scores):
            if isinstance(scored, DocumentError):
                failed.append(index)
            for name, value in self.checked(scored, f"document {index}").items():
                values[name].append(value)
                if isinstance(value, float) and math.isnan(value):
                    nan.setdefault(name, []).append(index)
        made = {name: number.aggregate(values[name]) for name, number in self.numbers.items()}
        return Summary(made, {name: len(each) for name, each in values.items()}, nan, failed)


def pass_at(correct: Sequence[bool], ks: Iterable[int] = (1,)) -> dict[str, float]:
    """Return "pass@k" for every k, from one look at the responses to a document; see `pass_at_k`.

    ``correct`` says of all responses whether they are. ValueError for a k that is more than there are responses.

    >>> pass_at([True, False, False, False], (1, 2))
    {'pass@1': 0.25, 'pass@2': 0.5}
    """
    right = sum(map(bool, correct))
    return {f"pass@{k}": pass_at_k(len(correct), right, k) for k in ks}


def _check(name: Any, number: Any) -> None:
    if not isinstance(name, str) or not name:
        raise TypeError(f"numbers: expected names, got {name!r}")
    if not isinstance(number, Number):
        raise TypeError(f"numbers: expected a Number for {name!r}, got {type(number).__name__}")
    if "," in name or name.endswith("_stderr"):
        raise ValueError(f"numbers: {name!r} would collide with what lm-eval calls 'metric,filter' or 'metric_stderr'")
    if name in _TAKEN:
        raise ValueError(
            f"numbers: {name!r} is a field of lm-eval's record of a sample and would overwrite it; rename it"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "nothing"


def _alternatives(names: Iterable[str]) -> str:
    return " or ".join(map(repr, names))


def _short(thing: Any) -> str:
    text = repr(thing)
    return text if len(text) <= 80 else f"{text[:77]}..."
