"""EC401, EC402, EC407, EC409, EC410: every document gets its own score."""

from __future__ import annotations

from typing import Any

from pytest_evalcheck.expectations.comparison import EXACT, Raised, constant_numbers, difference, show
from pytest_evalcheck.expectations.failures import compared, expect, inconclusive, refused
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.guard import Snapshot
from pytest_evalcheck.kinds.common.case import RightAndWrong, fixed_up_to
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.scorer.cases import Documents, MalformedResponse, SingleDocument
from pytest_evalcheck.kinds.scorer.subject import ScorerSubject


@check("EC401", needs=("odd",), conditions=("an odd response first", "an odd response last"))
def every_document_gets_one_score_in_order(scorer: ScorerSubject, case: MalformedResponse) -> None:
    """There is one score per document, in document order, whatever the response is: empty, None, none at all.

    A clear error for such a response is allowed.

    Why: scores are joined with documents by their index, so a missing score shifts all that follow.
    Usual cause: documents without an answer are filtered out; if `order-of-scores` fails, documents are sorted by
    length and not sorted back.
    Fix: `scores[index] = None` for a document that cannot be scored; pytest_evalcheck.fixes.scoring.score_documents
    keeps their order.
    """
    nothing = scorer.scores([])
    if not isinstance(nothing, Raised) and nothing:  # an empty result proves nothing
        expect(nothing).equals([], about="the scores of no documents", id="no-documents")
    for rows in (case.samples, case.documents):
        scores = scorer.scores(rows)
        if isinstance(scores, Raised):
            refused(scores)
            continue
        expect(len(scores)).equals(
            len(rows), about=f"the number of scores of {len(rows)} documents", id="number-of-scores"
        )
        reordered = is_reordered(scores, scorer.scores_one_by_one(rows))
        expect(scores).holds(
            not reordered, about="the scores are not in the order of their documents", id="order-of-scores"
        )


@check("EC402", conditions=("several documents",), decides=True)
def scoring_does_not_modify_its_inputs(scorer: ScorerSubject, case: Documents) -> None:
    """Documents, responses and configuration are as before, and responses that can be read once are read once.

    Why: the next filter and the next metric get the same objects, and samples are logged after scoring.
    Usual cause: a response is normalised in place, an answer is put into the document, or an iterator is read twice.
    Fix: `document = {**document, 'answer': answer}`; `responses = list(responses)` before they are read twice.
    """
    changed = "\n".join(scorer.changed[:3])  # by the first call in this process: a write may repeat itself since
    expect(case.samples).holds(
        not changed, about="score changed what all scorers share", id="shared-state", detail=changed
    )
    record = scorer.build()  # nothing is scored before it is looked at: a write may not show when it repeats itself
    for name, score in {"score": record.score, **record.parallel}.items():
        responses, documents = scorer.collate(case.samples)
        settings = record.configuration() if record.configuration else None
        before = Snapshot({"responses": responses, "documents": documents, "configuration": settings}, "given")
        scorer.run(score, responses, documents)
        detail, about = "\n".join(before.changes()[:3]), f"{name} changed its inputs"
        expect(documents).holds(not detail, about=about, id=f"inputs-of-{slug(name)}", detail=detail, form="unchanged")
        if record.iterators:
            responses, documents = scorer.collate(case.samples)
            actual = scorer.run(score, iter(responses), documents)
            if isinstance(actual, Raised):
                refused(actual)
            else:
                expected = scorer.scores(case.samples)
                expect(actual).equals(
                    expected, about=f"{name} of responses that can be read once", id=f"read-once-by-{slug(name)}"
                )


@check("EC407", conditions=("one row of many", "rows in another order"), after=("EC401", "EC403"), decides=True)
def score_is_independent_of_other_documents(scorer: ScorerSubject, case: SingleDocument) -> None:
    """Order and number of documents, metrics and filters do not change the score of a document.

    Why: with a limit, a shard or one more metric, the same response would get another score.
    Usual cause: scores are scaled by the best of the run, or a filter passes its result to the next one by mistake.
    Fix: score a document from its own responses: `score / limit` with a constant for `score / max(scores)`.
    """
    rows, document = case.samples, case.samples[case.index]
    (own,) = scorer.scores_one_by_one([document])
    for name, (batch, index) in case.batches(scorer.inputs.similar).items():
        scores = scorer.scores(batch)
        if not isinstance(scores, Raised):
            missing = f"there is no score of a document {name}"
            expect(len(scores)).holds(len(scores) > index, about=missing, id=f"no-score-{slug(name)}")
        actual = scores if isinstance(scores, Raised) else scores[index]
        expect(actual).equals(own, about=f"the score of a document {name}", id=f"document-{slug(name)}")
    parts = scorer.record.parts
    alone = {name: scorer.together((name,), rows) for name in parts}
    for names in (parts, parts[::-1]) if len(parts) > 1 else ():
        together = scorer.together(names, rows)
        for name in names:
            expected = alone[name] if isinstance(alone[name], Raised) else alone[name][name]
            actual = together if isinstance(together, Raised) else together[name]
            expect(actual).equals(
                expected,
                about=f"what {name} gives when {', '.join(names)} run together",
                id=f"{slug(name)}-when-{slug(' '.join(names))}-run-together",
            )


@check("EC409", existential=True, after=("EC401",), decides=True)
def a_wrong_response_gets_a_different_score(scorer: ScorerSubject, case: RightAndWrong) -> None:
    """Control: the scorer distinguishes a right response from a wrong one.

    A number of a score of several parts is not 0 for all right responses and for all others, where others move.

    Where the samples name no `wrong` response, some lists of different samples must have different scores. Where all of
    them have the same, the check is not applicable: an honest scorer may give 0 for whatever is drawn.

    Why: a constant scorer passes nearly every other check.
    Usual cause: an error or an empty answer becomes a score of zero, whatever the response was.
    Fix: look at what the scorer compares; no `except Exception: return 0.0`.
    """
    right, wrong = scorer.scores(case.right), scorer.scores(case.wrong)
    if scorer.inputs.wrong is None or scorer.inputs.observed:  # runs do not say which response is right
        raised = isinstance(right, Raised) or isinstance(wrong, Raised)
        if raised or len({show(score) for score in (*right, *wrong)}) < 2:
            inconclusive(
                "nothing tells right from wrong: all samples that were tried have the same score; "
                "name a wrong response and a contrast: samples(..., wrong=..., contrast=...)"
            )
        else:
            compared()
        return
    expect(right).holds(
        not (isinstance(right, Raised) and isinstance(wrong, Raised)),
        about="neither could be scored",
        id="scored",
        detail=f"{show(right)}\n{show(wrong)}",
    )
    expect(right).holds(
        difference(right, wrong, scorer.tolerance) is not None,
        about="right and wrong responses got the same scores",
        id="right-and-wrong",
        form="different",
        beside=wrong,
        detail=f"both      {show(right)}",
    )
    _require_numbers_that_move(scorer, right, wrong)


def _require_numbers_that_move(scorer: ScorerSubject, right: Any, wrong: Any) -> None:
    """Fail where a number of the scores is 0 for all samples that were tried, right responses included."""
    lists = [right, wrong, scorer.scores(fixed_up_to(scorer.inputs, _MANY))]
    scores = [score for each in lists if not isinstance(each, Raised) for score in each]
    dead = [name for name, number in constant_numbers(scores).items() if number == 0]
    expect(right).holds(
        not dead,
        about="a number of the scores is 0 for all samples that were tried, and others are not",
        id=f"always-zero-{slug(' '.join(dead))}",
        form="different",
        beside=wrong,
        detail=f"always 0  {', '.join(dead)}\nright     {show(right)}\nwrong     {show(wrong)}",
    )


_MANY = 8
"""Samples that are scored beside right and wrong ones."""


@check("EC410", needs=("reference",), conditions=("one document", "several documents"), after=("EC401", "EC407"))
def scores_equal_those_of_the_reference(scorer: ScorerSubject, case: Documents) -> None:
    """The scores equal those of the reference of the target.

    Why: what is wrong in the same way every time passes every other check.
    Usual cause: another denominator than the paper's, or a text that is normalised on one side only.
    Fix: compare with a loop over a few documents: `sum(map(score, documents)) / len(documents)`.
    """
    assert scorer.reference is not None
    expect(scorer.scores(case.samples)).equals(scorer.reference(case.samples), about="the scores", id="reference")


def is_reordered(scores: list[Any], others: list[Any]) -> bool:
    """Return whether two lists hold the same scores, but not in the same order."""
    return difference(scores, others, EXACT) is not None and sorted(map(show, scores)) == sorted(map(show, others))
