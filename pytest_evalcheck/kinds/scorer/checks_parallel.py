"""EC403 to EC405: many documents at once give what one after the other gives, and none is lost."""

from __future__ import annotations

from functools import partial

from pytest_evalcheck.expectations.comparison import EXACT, Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.scorer.cases import Crowd, Documents, OneOfMany
from pytest_evalcheck.kinds.scorer.scores import entries, named
from pytest_evalcheck.kinds.scorer.streaming import streamed
from pytest_evalcheck.kinds.scorer.stub_scorers import Draws, Fails, Slow, mark
from pytest_evalcheck.kinds.scorer.subject import ScorerSubject, one_by_one


@check("EC403", regimes=("many documents", "fewer documents than workers"), examples=8)
def parallel_gives_what_serial_gives(scorer: ScorerSubject, case: Crowd) -> None:
    """Parallel gives what serial gives, bit by bit, with any number of workers.

    Why: a score may not depend on which worker was the first to be done.
    Usual cause: results in the order of completion, a shared counter or buffer, random numbers that all draw from.
    Fix: pytest_evalcheck.fixes.scoring.score_documents
    """
    record = scorer.build()
    if not record.parallel and not record.runners:
        raise NotApplicable("the scorer offers no parallel way")
    expected = scorer.scores(case.documents)
    for name, score in record.parallel.items():
        found = scorer.scores(case.documents, score)
        expect(found).equals(expected, about=f"the scores by {name}", tolerance=EXACT)
    responses, documents = scorer.given(case.documents)
    slow, drawn = Slow(repr(documents[0])), None
    for name, runner in record.runners.items():
        found = scorer.run(partial(runner.run, slow), responses, documents)
        about = f"the scores by {name}, of a function that takes longer for the first document"
        expect(found).equals(one_by_one(mark, responses, documents), about=about, tolerance=EXACT)
        if runner.seeded:
            found = scorer.run(partial(runner.run, Draws()), responses, documents)
            drawn = found if drawn is None else drawn
            about = f"the scores by {name}, of a function that draws random numbers"
            expect(found).equals(drawn, about=about, tolerance=EXACT)


@check("EC404", regimes=("the first document", "the last document"), examples=4)
def an_error_names_its_document_and_loses_no_other(scorer: ScorerSubject, case: OneOfMany) -> None:
    """An error names its document, loses no other score, and nothing hangs: errors, dead workers, endless documents.

    Why: after hours of scoring one document that cannot be parsed must not cost all others, nor count as zero.
    Usual cause: the first exception ends the run, a dead worker is never missed, or errors are swallowed as scores.
    Fix: pytest_evalcheck.fixes.scoring.score_documents
    """
    record = scorer.build()
    if not record.runners:
        raise NotApplicable("the scorer takes no other function, so none that fails can be tried")
    responses, documents = scorer.given(case.samples)
    document = documents[case.place]
    lost = [place for place, other in enumerate(documents) if other == document]
    scores = one_by_one(mark, responses, documents)
    expected = {place: score for place, score in enumerate(scores) if place not in lost}
    for name, runner in record.runners.items():
        ways = ["raises", "raises what cannot be pickled"]
        ways += ["ends its process"] * runner.processes + ["never ends"] * bool(runner.timeout)
        for way in ways:
            seen = scorer.run(partial(runner.run, Fails(repr(document), way)), responses, documents)
            about = f"by {name}, when the function {way} for document {case.place}"
            saved = entries(seen, runner.failed, runner.salvaged)
            expect(saved).equals(expected, about=f"the other scores {about}")
            if isinstance(seen, Raised):
                told = named(seen.error, lost, document)
                expect(seen).holds(told, about=f"the error does not name its document {about}", detail=str(seen))


@check("EC405", examples=1)
def memory_is_bounded_while_documents_stream(scorer: ScorerSubject, case: Documents) -> None:
    """Memory stays bounded while documents stream: no more of them are held at once than the scorer declares.

    Why: a data set of a million generations does not fit into memory twice.
    Usual cause: the stream is turned into a list, or all work is handed to the workers before the first is done.
    Fix: pytest_evalcheck.fixes.scoring.score_documents
    """
    record = scorer.build()
    if record.stream is None:
        raise NotApplicable("the scorer takes no stream of documents")
    expected = scorer.alone(case.samples)
    count = 3 * record.held
    seen = streamed(record.stream, lambda: scorer.given(case.samples), expected, count)
    expect(seen.wrong).equals(None, about="the first score of the stream that is not the one of its document")
    expect(seen.scores).equals(count, about=f"the scores of a stream of {count} documents")
    expect(seen.held).holds(
        seen.held <= record.held, about=f"of {count} documents {seen.held} were held at once, {record.held} are allowed"
    )
