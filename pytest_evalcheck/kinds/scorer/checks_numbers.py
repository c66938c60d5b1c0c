"""EC406 and EC408: several numbers of one computation, and numbers that were computed before."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import EXACT, Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.scorer.call_counts import AGGREGATIONS, calls, counting, folder, totals
from pytest_evalcheck.kinds.scorer.cases import Documents
from pytest_evalcheck.kinds.scorer.subject import ScorerSubject, Several, one_by_one
from pytest_evalcheck.kinds.wrapper.cases import TwoBatches


@check("EC406", regimes=("several documents",), examples=5)
def several_numbers_come_from_one_computation(scorer: ScorerSubject, case: Documents) -> None:
    """Several numbers of one function are computed once a document, each with its own aggregation, over all documents.

    Numbers of the same name, and a document that lacks one of them, are refused or told apart.

    Why: pass@1 and pass@5 of one run must not take two runs, nor count different documents.
    Usual cause: one filter a metric repeats the work, or a name overwrites another, or a missing number is left out.
    Fix: pytest_evalcheck.fixes.scoring.Numbers
    """
    responses, documents = scorer.given(case.samples)
    with counting() as one:
        seen = scorer.numbers([Several(one=one, aggregations=AGGREGATIONS)], case.samples)
        called = calls(one)  # before ours
        expected = totals(one_by_one(one, responses, documents))
        found = seen if isinstance(seen, Raised) else {name: seen.get(name) for name in expected}
        expect(found).equals(expected, about="the numbers of one function")
        expect(called).equals(sorted(map(repr, documents)), about="the documents that the function was called for")
    with counting(without=(repr(documents[-1]), "largest")) as lacking:
        seen = scorer.numbers([Several(one=lacking, aggregations=AGGREGATIONS)], case.samples)
        shown = totals(one_by_one(lacking, responses, documents)).get("largest", "nothing")
        silent = isinstance(seen, Raised) or "largest" not in seen or seen["largest"] != shown
        expect(seen).holds(silent, about="a number that one document lacks is aggregated over the others")
    with counting() as one, counting(shift=0.5) as other:
        functions = [Several(one=made, aggregations=AGGREGATIONS) for made in (one, other)]
        seen = scorer.numbers(functions, case.samples)
        both = [totals(one_by_one(made, responses, documents))["mean"] for made in (one, other)]
        lost = not isinstance(seen, Raised) and not all(any(v == value for v in seen.values()) for value in both)
        expect(seen).holds(not lost, about=f"of two numbers with one name, {both}, one is lost")


@check("EC408", regimes=("batches of one size", "batches of unequal sizes"), examples=8)
def cached_scores_are_those_of_this_run(scorer: ScorerSubject, case: TwoBatches) -> None:
    """Cached gives what uncached gives, whatever was scored before; the key covers all that the score depends on.

    Why: a score of another model, from last week, looks like any other.
    Usual cause: the key lacks the model, the arguments, the responses, or is the place of the document.
    Fix: pytest_evalcheck.fixes.scoring.score_documents
    """
    record = scorer.build()
    if record.cached is None:
        raise NotApplicable("the scorer keeps no cache")
    wrong = scorer.inputs.wrong
    runs = [case.before, case.after, *([[wrong(row) for row in case.before]] if wrong else []), case.before]
    with folder() as path:
        for rows in runs:
            for setting in record.settings:
                plain, cached = record.cached(setting, path)
                found, expected = scorer.scores(rows, cached), scorer.scores(rows, plain)
                of = f" of {setting}" if setting else ""
                expect(found).equals(expected, about=f"the cached scores{of}", tolerance=EXACT)
