"""EC415: the scores do not depend on which documented way of calling a scorer is used."""

from __future__ import annotations

from pytest_evalcheck.expectations.failures import expect
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.scorer.cases import ConventionDocuments
from pytest_evalcheck.kinds.scorer.subject import ScorerSubject


@check("EC415", conditions=("one document", "several documents"), examples=8, after=("EC401", "EC402"))
def every_way_to_call_gives_the_same_scores(scorer: ScorerSubject, case: ConventionDocuments) -> None:
    """Each documented way to call a scorer gives the same scores: one by one or all at once, by name or not.

    The ways are the conventions of its record.

    Why: a script scores documents one by one, and a harness all at once; their tables are compared.
    Usual cause: one way has code of its own, which normalises, truncates or orders otherwise.
    Fix: let all of them end in one function: `score_all = lambda documents: [score(each) for each in documents]`.
    """
    expected = scorer.scores(case.samples)
    for name, sentence, called in scorer.by_convention(case.first):
        expect(called.scores(case.samples)).equals(
            expected, about=f"the scores by the convention {name!r}", id=f"called-by-{slug(name)}", detail=sentence
        )
