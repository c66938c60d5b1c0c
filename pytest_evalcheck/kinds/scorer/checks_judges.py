"""EC420 to EC423: scorers that ask a judge, and scorers that draw random numbers."""

from __future__ import annotations

import math
from functools import partial
from statistics import fmean, stdev
from typing import Any

from pytest_evalcheck.expectations.comparison import EXACT, Raised, difference
from pytest_evalcheck.expectations.failures import NotApplicable, compared, expect, inconclusive, refused
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.intervals import read_number
from pytest_evalcheck.kinds.common.process_state import same_random_numbers
from pytest_evalcheck.kinds.scorer.cases import Documents
from pytest_evalcheck.kinds.scorer.judging import Judging, Preferring
from pytest_evalcheck.kinds.scorer.subject import ScorerSubject

_SEEDS = 8
_RUNS, _REPEATS, _FURTHEST, _ROUNDING = 2, 500, 5.5, 1e-12
"""Runs of a summary and the number of summaries; standard errors by which two variances may differ; and rounding."""
_TEXTS = ("the answer that is <one>", "the answer that is <two>")


@check("EC420", conditions=("one document", "several documents"), examples=4, after=("EC401",))
def a_judgement_that_cannot_be_parsed_is_no_score(scorer: ScorerSubject, case: Documents) -> None:
    """An answer of a judge without one verdict leaves its document without a score, or is an error; it is no score.

    The judge answers nothing, refuses, is cut off, talks about something else, is late, or gives two verdicts. An
    answer with a verdict is scored, and not all verdicts have one score.

    Why: a judge that fails more often for one model would else lower the score of that model.
    Usual cause: a pattern that does not match gives 0, the lowest grade or a tie; a letter is found in prose.
    Fix: `re.fullmatch(pattern, answer)`; None or NaN for what was not parsed, and a count of these beside the score.
    """
    judging = _judging(scorer)
    scores = [_judged(scorer, judging, lambda _prompt, text=text: text, case) for text in judging.verdicts]
    error = next((each for each in scores if isinstance(each, Raised)), None)
    if error:
        refused(error)
        return
    # A judge that always names one place may be a tie of both orders; EC421 shows that its verdict matters.
    differ = judging.pairwise is not None or any(difference(each, scores[0], EXACT) for each in scores[1:])
    expect(scores).holds(differ, about="all verdicts of a judge get one score", id="verdicts-differ")
    for each, text in zip(scores, judging.verdicts, strict=True):
        scored = not any(map(judging.unscored, each))
        expect(each).holds(scored, about=f"the verdict {text!r} gets no score", id="verdict-without-score")
    for name, judge in judging.unparsable().items():
        given = _judged(scorer, judging, judge, case)
        if isinstance(given, Raised):
            compared()
            continue
        marks = [score for score in given if not judging.unscored(score)]
        about = f"a document gets a score where the answer of the judge is {name}"
        expect(given).holds(not marks, about=about, id=f"scored-where-{slug(name)}")
    if judging.takes:
        wanted = scores[0 if judging.takes == "first" else 1]
        given = _judged(scorer, judging, lambda _prompt: judging.several, case)
        about = f"the scores of answers with two verdicts, of which the {judging.takes} counts"
        expect(given).equals(wanted, about=about, id="two-verdicts")


@check("EC421", conditions=("one document",), examples=3, after=("EC420",))
def exchanged_responses_get_the_mirrored_judgement(scorer: ScorerSubject, case: Documents) -> None:
    """A judge that prefers a response prefers it in both places: exchanged responses get the other score.

    Why: models prefer one of the places, so that responses are exchanged, and the verdict has to be exchanged back.
    Usual cause: the verdict of exchanged responses is not mirrored, or what the prompt calls A is the second one.
    Fix: `winner = {"A": "B", "B": "A"}.get(verdict, verdict)` where the responses were exchanged.
    """
    judging = _judging(scorer)
    if judging.pairwise is None:
        raise NotApplicable("the judge is not asked which of two responses is better: ec.Judging(..., pairwise=(1, 0))")
    for preferred, other in (_TEXTS, _TEXTS[::-1]):
        for place, pair in enumerate(((preferred, other), (other, preferred))):
            judge = Preferring(preferred, other, judging.verdicts)
            given = _judged(scorer, judging, judge, case, pair)
            if not judge.asked:
                inconclusive("no prompt has both responses")
                return
            wanted = [judging.pairwise[place]] * len(case.samples)
            about = f"the scores where the judge prefers the {('first', 'second')[place]} response wherever it stands"
            expect(given).equals(wanted, about=about, id="preferred-response")


@check("EC422", conditions=("several documents",), examples=3, after=("EC407", "EC412"))
def the_seed_reaches_every_draw(scorer: ScorerSubject, case: Documents) -> None:
    """With one seed a scorer that draws gives the same scores, whatever was drawn before; another seed changes them.

    Why: a random score can only be published with a seed that gives it again, and only several seeds show its spread.
    Usual cause: the seed is given to one of several generators, is read once per process, or is a constant.
    Fix: `random.Random(f"{seed} {document}")` for each document, and the same for every generator that is used.
    """
    if scorer.build().seeded is None:
        raise NotApplicable("the scorer takes no seed: ec.Scorer(..., seeded=...)")

    def scores(seed: int, before: int) -> Any:
        seeded = scorer.build().seeded
        assert seeded is not None
        with same_random_numbers(before):
            return scorer.scores(case.samples, partial(seeded, seed), reseed=False)

    first = scores(0, 0)
    for before in (1, 2):
        about = "the scores with one seed, after other random numbers were drawn"
        expect(scores(0, before)).equals(first, about=about, id="same-seed", tolerance=EXACT)
    others = [scores(seed, 0) for seed in range(1, _SEEDS)]
    changed = any(difference(each, first, EXACT) is not None for each in others)
    about = f"{_SEEDS} seeds give the same scores"
    expect(first).holds(changed, about=about, id="other-seeds")


@check("EC423", conditions=("several documents",), examples=2, after=("EC422",))
def runs_have_the_spread_that_is_reported(scorer: ScorerSubject, case: Documents) -> None:
    """The spread that several runs report is that of runs: the variance of their mean, times their number.

    500 pairs of runs are made, each from a seed of its own. The mean of the squares of the reported spreads is compared
    with the variance of the means. By the normal distribution, a correct spread fails once in ten million.

    Why: the difference of two models is compared with the spread of three or five runs.
    Usual cause: all runs begin from one seed, so that the spread is 0; `numpy.std` divides by the number of runs, not
    by one less: of two runs 30 % are missing; the error of the mean is named a standard deviation.
    Fix: `statistics.stdev(values)` of runs whose seeds differ, or `numpy.std(values, ddof=1)`.
    """
    repeated = scorer.build().repeated
    if repeated is None:
        raise NotApplicable("the scorer reports no spread of several runs: ec.Scorer(..., repeated=ec.Repeated(...))")
    found = [scorer.summarised(partial(repeated.summary, seed, _RUNS), case.samples) for seed in range(_REPEATS)]
    error = next((each for each in found if isinstance(each, Raised)), None)
    if error:
        refused(error)
        return
    of_mean = repeated.spread is None
    beside = repeated.error if of_mean else repeated.spread
    read = [(read_number(each, repeated.value), read_number(each, beside)) for each in found]
    values = [value for value, _ in read if value is not None and math.isfinite(value)]
    spreads = [spread for _, spread in read if spread is not None and math.isfinite(spread)]
    if len(values) + len(spreads) < 2 * _REPEATS:
        inconclusive("some runs report no mean or no spread")
        return
    if max(values) - min(values) <= _ROUNDING * (1 + abs(fmean(values))):
        inconclusive("all runs have the same value")
        return
    scale = math.sqrt(_RUNS) if of_mean else 1.0
    *both, away = _spreads(values, [spread * scale for spread in spreads])
    actual, expected = (spread / scale for spread in both)
    what = "standard error of the mean" if of_mean else "spread"
    about = (
        f"{_REPEATS} pairs of runs report a {what} of {actual:.3g} on average; their means show one of {expected:.3g}"
    )
    expect(actual).holds(away <= _FURTHEST, about=about, id="spread")


def _spreads(means: list[float], reported: list[float]) -> tuple[float, float, float]:
    """The spread of a run as reported by groups of runs and as their means show it, and their distance.

    The squares are averaged. The distance is in standard errors, which the differences of the single groups show.
    """
    middle = fmean(means)
    # An unbiased estimate of the variance of a run, from the mean of each group.
    shown = [_RUNS * (mean - middle) ** 2 * len(means) / (len(means) - 1) for mean in means]
    apart = [spread**2 - other for spread, other in zip(reported, shown, strict=True)]
    away = abs(fmean(apart)) * math.sqrt(len(apart)) / stdev(apart) if stdev(apart) else math.inf
    return math.sqrt(fmean(spread**2 for spread in reported)), math.sqrt(fmean(shown)), away


def _judging(scorer: ScorerSubject) -> Judging:
    judging = scorer.build().judging
    if judging is None:
        raise NotApplicable("no other judge can be given to the scorer: ec.Scorer(..., judging=ec.Judging(...))")
    return judging


def _judged(scorer: ScorerSubject, judging: Judging, judge: Any, case: Documents, pair: Any = None) -> Any:
    """The scores by a judge of a new scorer, or the error; with ``pair`` each document has these two responses."""
    responses, documents = scorer.collate(case.samples)
    given = [list(pair) for _ in responses] if pair else responses
    return scorer.run(partial(judging.score, judge), given, documents)
