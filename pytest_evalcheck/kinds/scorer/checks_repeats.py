"""EC411, EC412: an error of a metric function comes out as itself, and scores that are asked for twice are the same."""

from __future__ import annotations

from functools import partial

from pytest_evalcheck.expectations.comparison import EXACT
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.failing_metric import FailingMetric
from pytest_evalcheck.kinds.scorer.cases import MetricErrors, TwoBatches
from pytest_evalcheck.kinds.scorer.subject import ScorerSubject


@check("EC411", conditions=("one document", "several documents"), examples=4, after=("EC401",))
def an_error_of_a_metric_function_comes_out_as_itself(scorer: ScorerSubject, case: MetricErrors) -> None:
    """An error of a metric function comes out with its type and its text, or as the cause of another one.

    Why: a metric that fails is no score of zero; an error about something else hides which line is wrong.
    Usual cause: `except TypeError` around the call and a second call with other arguments; `except Exception: 0.0`.
    Fix: decide how to call a function by its signature, before the call; `raise ... from error`.
    """
    scored_with = scorer.build().scored_with
    if scored_with is None:
        raise NotApplicable("no other metric function can be given to the scorer: ec.Scorer(..., scored_with=...)")
    for error in case.errors:
        function = FailingMetric(error)
        result = scorer.scores(case.samples, partial(scored_with, function))
        if not function.called:
            inconclusive("the function was not called")
            return
        problem, where = function.problem(result), f"where the metric function raises {error}"
        expect(result).holds(not problem, about=f"{where}, {problem}", id=f"metric-raises-{slug(error)}")


@check(
    "EC412",
    conditions=("batches of one size", "batches of unequal sizes"),
    examples=8,
    after=("EC401", "EC402", "EC407"),
    decides=True,
)
def scoring_twice_gives_the_same_scores(scorer: ScorerSubject, case: TwoBatches) -> None:
    """A scorer gives the same documents the same scores, bit by bit, whatever it scored before; and so does a new one.

    Why: who scores a file again must get the number that was published.
    Usual cause: ties are broken by a generator that nobody can seed, or what was seen before is remembered: by the
    question alone, or to count every answer once.
    Fix: `random.Random(pytest_evalcheck.fixes.scoring.document_seed(0, document))`; what is remembered is new for every
    call.
    """
    score = scorer.build().score
    first = scorer.scores(case.samples, score)
    expect(scorer.scores(case.samples, score)).equals(
        first, about="the scores at the second time", id="second-time", tolerance=EXACT
    )
    similar = scorer.inputs.similar
    others = [*case.after, *map(similar, case.samples)] if similar else case.after
    expected = scorer.scores(others)
    about = "the scores of other documents after these"
    expect(scorer.scores(others, score)).equals(expected, about=about, id="other-documents", tolerance=EXACT)
    about = "the scores at the third time, after other documents"
    expect(scorer.scores(case.samples, score)).equals(first, about=about, id="third-time", tolerance=EXACT)
    expect(scorer.scores(case.samples)).equals(
        first, about="the scores of a new scorer", id="new-scorer", tolerance=EXACT
    )
