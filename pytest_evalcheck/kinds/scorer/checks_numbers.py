"""EC406 and EC408: several numbers of one computation, and numbers that were computed before."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pytest_evalcheck.expectations.comparison import EXACT, Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.scorer.cases import Documents, TwoBatches
from pytest_evalcheck.kinds.scorer.stub_scorers import AGGREGATIONS, aggregated, counting_scorer, text_of
from pytest_evalcheck.kinds.scorer.subject import ScorerSubject, Several, score_one_by_one


@check("EC406", conditions=("several documents",), examples=5, after=("EC401",))
def several_numbers_come_from_one_computation(scorer: ScorerSubject, case: Documents) -> None:
    """Several numbers of one function are computed once a document, each with its own aggregation, over all documents.

    Numbers of the same name, and a document that lacks one of them, are refused or can be distinguished.

    Why: pass@1 and pass@5 of one run must not take two runs, nor count different documents.
    Usual cause: one filter per metric repeats the work, a name overwrites another, or a missing number is left out.
    Fix: pytest_evalcheck.fixes.scoring.Numbers
    """
    responses, documents = scorer.collate(case.samples)
    with counting_scorer() as function:
        actual = scorer.numbers([Several(function=function, aggregations=AGGREGATIONS)], case.samples)
        called = function.calls()  # before ours
        expected = aggregated(score_one_by_one(function, responses, documents))
        actual = actual if isinstance(actual, Raised) else {name: actual.get(name) for name in expected}
        expect(actual).equals(expected, about="the numbers of one function", id="numbers")
        expect(called).equals(
            sorted(map(text_of, documents)), about="the documents that the function was called for", id="calls"
        )
    with counting_scorer(without=(text_of(documents[-1]), "largest")) as function:
        actual = scorer.numbers([Several(function=function, aggregations=AGGREGATIONS)], case.samples)
        of_others = aggregated(score_one_by_one(function, responses, documents)).get("largest", "nothing")
        noticed = isinstance(actual, Raised) or "largest" not in actual or actual["largest"] != of_others
        about = "a number that one document lacks is aggregated over the others"
        expect(actual).holds(noticed, about=about, id="lacking-number", form="different", beside=actual)
    with counting_scorer() as first, counting_scorer(shift=0.5) as second:
        functions = [Several(function=function, aggregations=AGGREGATIONS) for function in (first, second)]
        actual = scorer.numbers(functions, case.samples)
        means = [aggregated(score_one_by_one(function, responses, documents))["mean"] for function in (first, second)]
        lost = not isinstance(actual, Raised) and not all(any(v == mean for v in actual.values()) for mean in means)
        about = f"of two numbers with one name, {means}, one is lost"
        expect(actual).holds(not lost, about=about, id="same-name", form="different", beside=actual)


@check("EC408", conditions=("batches of one size", "batches of unequal sizes"), examples=8, after=("EC401",))
def cached_scores_equal_uncached_scores(scorer: ScorerSubject, case: TwoBatches) -> None:
    """Scores from a cache equal uncached scores, whatever was scored before: its key covers all that they depend on.

    Why: a score of another model, from last week, looks like any other.
    Usual cause: the key lacks the model, the arguments or the responses, or is the index of the document.
    Fix: pytest_evalcheck.fixes.scoring.score_documents
    """
    record = scorer.build()
    if record.cached is None:
        raise NotApplicable("the scorer keeps no cache")
    changes = [change for change in (scorer.inputs.wrong, scorer.inputs.similar) if change]
    changed = [[change(row) for row in case.samples] for change in changes]
    batches = [case.samples, case.after, *changed, case.samples]
    with tempfile.TemporaryDirectory(prefix="evalcheck-") as folder:
        for rows in batches:
            for setting in record.settings:
                plain, cached = record.cached(setting, Path(folder))
                actual, expected = scorer.scores(rows, cached), scorer.scores(rows, plain)
                of_setting = f" of {setting}" if setting else ""
                expect(actual).equals(
                    expected,
                    about=f"the cached scores{of_setting}",
                    id=f"cached-of-{slug(setting)}" if setting else "cached",
                    tolerance=EXACT,
                )
