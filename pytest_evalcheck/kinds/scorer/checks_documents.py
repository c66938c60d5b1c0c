"""EC401, EC402, EC407, EC409, EC410: a document gets the score that is its own."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import Raised, difference, show
from pytest_evalcheck.expectations.failures import expect, refused
from pytest_evalcheck.guard import Snapshot
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.metric.cases import Contrast
from pytest_evalcheck.kinds.scorer.cases import Documents, Odd
from pytest_evalcheck.kinds.scorer.scores import same_in_another_order
from pytest_evalcheck.kinds.scorer.subject import ScorerSubject
from pytest_evalcheck.kinds.wrapper.cases import SingleRow


@check("EC401", needs=("odd",), regimes=("an odd response first", "an odd response last"))
def every_document_gets_one_score_in_its_place(scorer: ScorerSubject, case: Odd) -> None:
    """There is one score a document, in document order, whatever the response is: empty, None, none at all.

    A loud refusal of an odd response is allowed.

    Why: scores are joined with documents by their place, so one that is left out moves all that follow.
    Usual cause: documents without an answer are filtered out, or they are sorted by length and not put back.
    Fix: give a document that cannot be scored an entry of its own.
    """
    nothing = scorer.scores([])
    if not isinstance(nothing, Raised) and nothing:  # that there are none proves nothing
        expect(nothing).equals([], about="the scores of no documents")
    for rows in (case.samples, case.mixed):
        scores = scorer.scores(rows)
        if isinstance(scores, Raised):
            refused(scores)
            continue
        expect(len(scores)).equals(len(rows), about=f"the number of scores of {len(rows)} documents")
        moved = same_in_another_order(scores, scorer.alone(rows))
        expect(scores).holds(not moved, about="the scores are not in the order of their documents")


@check("EC402", regimes=("several documents",))
def scoring_leaves_everything_as_it_was(scorer: ScorerSubject, case: Documents) -> None:
    """Documents, responses and configuration are as before, and responses that can be read once are read once.

    Why: the next filter and the next metric are given the same objects, and samples are logged after scoring.
    Usual cause: a response is normalised in place, an answer is put into the document, or an iterator is read twice.
    Fix: make new lists and dicts; turn an iterator into a list before it is read twice.
    """
    record = scorer.build()
    expected = scorer.scores(case.samples)
    for name, score in {"score": record.score, **record.parallel}.items():
        responses, documents = scorer.given(case.samples)
        settings = record.configuration() if record.configuration else None
        before = Snapshot({"responses": responses, "documents": documents, "configuration": settings}, "given")
        scorer.run(score, responses, documents)
        changes = before.changes()
        expect(documents).holds(not changes, about=f"{name} changed what it was given", detail="\n".join(changes[:3]))
        if record.iterators:
            responses, documents = scorer.given(case.samples)
            once = scorer.run(score, iter(responses), documents)
            if isinstance(once, Raised):
                refused(once)
            else:
                expect(once).equals(expected, about=f"{name} of responses that can be read once")


@check("EC407", regimes=("one row of many", "rows in another order"))
def a_score_does_not_depend_on_the_company(scorer: ScorerSubject, case: SingleRow) -> None:
    """Order and number of documents, metrics and filters do not change anybody's score.

    Why: with a limit, a shard or one metric more, the same response would get another score.
    Usual cause: scores are scaled by the best of the run, or a filter hands its result to the next one by mistake.
    Fix: score a document from its own responses; give every filter the responses that the model gave.
    """
    company = case.batches(None) | {"twice": ([*case.samples, *case.samples], len(case.samples) + case.row)}
    (own,) = scorer.alone(case.alone)
    for name, (rows, place) in company.items():
        scores = scorer.scores(rows)
        about = f"the score of a document {name}"
        if isinstance(scores, Raised):
            expect(scores).equals(own, about=about)
        else:
            expect(len(scores)).holds(len(scores) > place, about=f"there is no score of a document {name}")
            expect(scores[place]).equals(own, about=about)
    parts = scorer.record.parts
    alone = {name: scorer.together((name,), case.samples) for name in parts}
    for names in (parts, parts[::-1]) if len(parts) > 1 else ():
        seen = scorer.together(names, case.samples)
        for name in names:
            expected = alone[name] if isinstance(alone[name], Raised) else alone[name][name]
            actual = seen if isinstance(seen, Raised) else seen[name]
            expect(actual).equals(expected, about=f"what {name} gives when {', '.join(names)} run together")


@check("EC409", needs=("wrong",), existential=True)
def a_wrong_response_gets_another_score(scorer: ScorerSubject, case: Contrast) -> None:
    """Control: the scorer tells a right response from a wrong one.

    Why: a scorer that always says the same keeps nearly every other promise.
    Usual cause: an error or an empty answer is turned into a score of zero, whatever the response was.
    Fix: look at what the scorer compares; let errors be seen.
    """
    right, wrong = scorer.scores(case.right), scorer.scores(case.wrong)
    expect(right).holds(
        not (isinstance(right, Raised) and isinstance(wrong, Raised)),
        about="neither could be scored",
        detail=f"{show(right)}\n{show(wrong)}",
    )
    expect(right).holds(
        difference(right, wrong, scorer.tolerance) is not None,
        about="right and wrong responses got the same scores",
        detail=f"both      {show(right)}",
    )


@check("EC410", needs=("reference",), regimes=("one document", "several documents"))
def the_scores_are_those_of_the_reference(scorer: ScorerSubject, case: Documents) -> None:
    """The scores are what the reference of the target says.

    Why: what is wrong in the same way every time breaks no other promise.
    Usual cause: another denominator than the paper's, or a text that is normalised on one side only.
    Fix: hold the formula against an exact loop over a few documents.
    """
    assert scorer.reference is not None
    expect(scorer.scores(case.samples)).equals(scorer.reference(case.samples), about="the scores")
