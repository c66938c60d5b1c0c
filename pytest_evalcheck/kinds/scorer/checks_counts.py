"""EC430 to EC434: what the numbers of a run count: every document once, and the tries of a document."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from pytest_evalcheck.expectations.comparison import EXACT, Raised, plain
from pytest_evalcheck.expectations.failures import NotApplicable, compared, expect, inconclusive, refused
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.intervals import read_number
from pytest_evalcheck.kinds.scorer.cases import Documents, MalformedResponse
from pytest_evalcheck.kinds.scorer.declared import Reducer
from pytest_evalcheck.kinds.scorer.subject import ScorerSubject
from pytest_evalcheck.strategies.samples import SampleStrategy


@check("EC430", needs=("odd",), conditions=("an odd response first", "an odd response last"), examples=8)
def every_document_is_counted_once(scorer: ScorerSubject, case: MalformedResponse) -> None:
    """Documents that count and documents that do not add up to all of them, and the mean is over those that count.

    Among them is one whose response is empty, None or missing. An error for all documents is allowed, and so is a mean
    that is NaN.

    Why: a model that fails on the hard documents must not be better for it.
    Usual cause: documents with an error are dropped, the count is that of all; or they count as wrong and as errors.
    Fix: `{"accuracy": sum(scores) / len(scores), "n": len(scores), "errors": errors}` with one list of scores.
    """
    names = scorer.record.counts
    if names is None:
        raise NotApplicable("no number says how many documents count: counts=ec.Counts(value=..., counted=...)")
    for rows in (case.samples, case.documents):
        summary = scorer.summarised(scorer.build().summary, rows)
        if isinstance(summary, Raised):
            refused(summary)
            continue
        value, counted = read_number(summary, names.value), read_number(summary, names.counted)
        left_out = sum(read_number(summary, key) or 0 for key in names.unscored)
        expect((counted or 0) + left_out).equals(
            len(rows), about=f"the documents that count and do not, of {len(rows)}", id="documents", tolerance=EXACT
        )
        scores = [score for own in scorer.scores_one_by_one(rows) if (score := finite(own)) is not None]
        if value is None or math.isnan(value) or not counted:
            compared()
            continue
        expect(value).equals(sum(scores) / counted, about=f"the mean of {counted:g} documents", id="mean")


@check("EC431", conditions=("several documents",), examples=4)
def a_disturbed_run_gives_the_numbers_of_an_undisturbed_one(scorer: ScorerSubject, case: Documents) -> None:
    """A run with a second try, or one that is continued, gives the summary of a run without a disturbance.

    Why: the runs that take longest are those that are interrupted.
    Usual cause: the documents of the first try are counted again, or those without a score are never tried again.
    Fix: `scores[document_id] = score`, so that each document has one score, and a mean of `scores.values()` at the end.
    """
    if not scorer.record.disturbed:
        raise NotApplicable("the scorer names no run with a disturbance: disturbed={'retry': function}")
    expected = scorer.summarised(scorer.build().summary, case.samples)
    for name, run in scorer.build().disturbed.items():
        actual = scorer.summarised(run, case.samples)
        expect(actual).equals(expected, about=f"the summary of a run with {name}", id=f"with-{slug(name)}")


@dataclass(frozen=True, kw_only=True)
class Tries:
    """Scores of the tries of one document."""

    tries: list[float]

    @property
    def conditions(self) -> frozenset[str]:
        """Return whether some tries are right."""
        right = sum(score >= 1 for score in self.tries)
        kinds = {"none is right": not right, "all are right": right == len(self.tries)}
        return frozenset({name for name, holds in kinds.items() if holds} or {"some are right"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Tries]:
        """Strategy of one to eight tries."""
        del inputs
        return st.builds(cls, tries=st.lists(st.sampled_from([0.0, 1.0, 0.0, 1.0, 0.5]), min_size=1, max_size=8))

    @classmethod
    def canonical(cls, inputs: SampleStrategy) -> list[Tries]:
        """None right, all right, one of several right, as many right as wrong, and a score between them."""
        del inputs
        return [cls(tries=tries) for tries in ([0.0] * 4, [1.0] * 4, [0.0, 1.0, 0.0, 0.0], [1.0, 0.0], [0.5, 1.0, 0.0])]


_KINDS_OF_TRIES = ("none is right", "all are right", "some are right")


@check("EC432", conditions=_KINDS_OF_TRIES)
def a_score_of_several_tries_is_exact(scorer: ScorerSubject, case: Tries) -> None:
    """The score of several tries is the exact one, and none is right gives no more than the best of them.

    Why: pass@5 of ten tries is compared with papers, in which it is 1 - C(n-c, k) / C(n, k).
    Usual cause: `1 - (1 - c / n) ** k`, which draws a try twice; or the share of right tries among the first k.
    Fix: `1 - math.comb(n - c, k) / math.comb(n, k)`.
    """
    reducer = reducer_of(scorer)
    actual, expected = reduced(reducer, case.tries), reducer.value(case.tries)
    if isinstance(actual, Raised) or math.isnan(actual):
        inconclusive(f"{case.tries} have no score")
        return
    low, high = (0.0, 1.0) if reducer.k else (min(case.tries), max(case.tries))
    about = f"the score of the tries {case.tries} is not between {low:g} and {high:g}"
    expect(actual).holds(low - 1e-6 <= actual <= high + 1e-6, about=about, id="range")
    if not math.isnan(expected):
        expect(actual).equals(expected, about=f"the {reducer.exact} of the tries {case.tries}", id="exact")


@check("EC433", conditions=_KINDS_OF_TRIES, after=("EC432",))
def a_score_of_several_tries_does_not_depend_on_their_order(scorer: ScorerSubject, case: Tries) -> None:
    """The score of several tries is the same in any order of the tries.

    Why: the first try is no better than the second, and with workers nobody knows which one was first.
    Usual cause: of values that are equally frequent, `Counter.most_common(1)` gives the one that came first.
    Fix: `max(set(tries), key=lambda score: (tries.count(score), score))`, or no score where two are equally frequent.
    """
    reducer, tries = reducer_of(scorer), case.tries
    expected = reduced(reducer, tries)
    for name, ordered in {"backwards": tries[::-1], "sorted": sorted(tries), "turned": [*tries[1:], tries[0]]}.items():
        about = f"the score of the tries {ordered} beside that of {tries}"
        expect(reduced(reducer, ordered)).equals(expected, about=about, id=f"tries-{name}")


@check("EC434", conditions=_KINDS_OF_TRIES, after=("EC432",))
def tries_without_a_score_are_no_wrong_tries(scorer: ScorerSubject, case: Tries) -> None:
    """No tries, and fewer than k of them, have no score: an error or NaN. A try that is NaN is left out, or gives NaN.

    Why: pass@10 of five tries would be 1 as soon as one of them is right, or even without one.
    Usual cause: `if n - c < k: return 1.0`, which is right for k tries or more alone; `NaN >= 1` is False, a wrong try.
    Fix: `return math.nan if n < k else ...`, and `tries = [score for score in tries if not math.isnan(score)]` before.
    """
    reducer, tries = reducer_of(scorer), case.tries
    for name, few in {"no tries": [], "fewer than k tries": tries[: max(0, reducer.k - 1)]}.items():
        if not few or reducer.exact != "at least":
            actual = reduced(reducer, few)
            none = isinstance(actual, Raised) or math.isnan(actual)
            expect(actual).holds(none, about=f"{name} have a score, of {few}", id=slug(name), form="error")
    actual = reduced(reducer, [*tries, math.nan])
    if not isinstance(actual, Raised) and not math.isnan(actual):
        expected = reduced(reducer, tries)
        expect(actual).equals(expected, about=f"the score of {tries} and a try that is NaN", id="unscored-try")


def reducer_of(scorer: ScorerSubject) -> Reducer:
    """Return the reducer of a scorer.

    Raises:
        NotApplicable: where it has none.
    """
    if scorer.record.reducer is None:
        raise NotApplicable("the scorer reduces no tries: ec.Scorer(..., reducer=ec.Reducer(reduce=...))")
    return scorer.record.reducer


def reduced(reducer: Reducer, tries: Sequence[float]) -> Any:
    """Return the score of tries, NaN for None, or the error."""
    result = plain(attempt("reduce", reducer.reduce, list(tries)))
    return result if isinstance(result, Raised) else math.nan if result is None else float(result)


def finite(score: Any) -> float | None:
    """Return a score as a number; None for an error, for None and for NaN."""
    score = plain(score)
    return float(score) if isinstance(score, (bool, int, float)) and math.isfinite(score) else None
