"""EC716 to EC718: a run asks the same again, in every process, and accounts for every document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised, show
from pytest_evalcheck.expectations.failures import NotApplicable, expect, refused
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.task.cases import FailingDocument, FirstDocuments, SomeDocuments
from pytest_evalcheck.kinds.task.subject import TaskSubject


@check("EC716", conditions=("several documents",), examples=4)
def a_task_gives_the_same_requests_again(task: TaskSubject, case: SomeDocuments) -> None:
    """A new task of the same configuration gives the same requests, whatever random numbers it is made with.

    Why: two models are compared on other prompts, and a difference of some points is that of their shots.
    Usual cause: shots or choices from a generator of random numbers that nobody seeds.
    Fix: `pytest_evalcheck.fixes.tasks.shots_of`, or a generator for each document: `random.Random(document_id)`.
    """
    documents = task.distinct_documents(case.samples)
    first = task.requests(documents)
    expect(task.requests(documents)).equals(first, about="the requests of a task asked again", id="again")
    for draw in range(1, 5):
        expect(task.requests(documents, draw=draw)).equals(first, about="the requests of a new task", id="new-task")


@check("EC717", conditions=("several documents",), examples=1, after=("EC716",))
def a_task_gives_the_same_requests_in_another_process(task: TaskSubject, case: FirstDocuments) -> None:
    """Two processes, in which texts have different hash values, give the same requests.

    Why: a run that is continued tomorrow, or by another worker, would ask something else.
    Usual cause: a set of texts that is iterated over, or `hash(text)` as a seed: both differ in every process.
    Fix: `sorted({...})`, or `dict.fromkeys(...)` for a set in order; `zlib.crc32(text.encode())` for a hash value.
    """
    task.needs("requests")
    task.document(0)  # where there is none, that is said here, and not by another process after seconds
    if task.elsewhere is None:
        raise NotApplicable("another process cannot build the target: its factory takes fixtures")
    first, second = task.elsewhere("request_texts", list(case.samples))
    expect(second).equals(first, about="the requests in a process with other hash values", id="another-process")


@check("EC718", conditions=("one failing document", "no failing document"))
def every_document_is_accounted_for(task: TaskSubject, case: FailingDocument) -> None:
    """A run reports every document that it was asked for: as scored, as one without a score, or as one that failed.

    The value is the mean mark of those that it says are scored. A run may also end with the error of a document.

    Why: a mean over the documents that went well is a higher number, of another data set, under the same name.
    Usual cause: documents whose request failed are left out of the mean and of the number of documents.
    Fix: report the numbers beside the value: `asked`, `scored`, `unscored`, `failed`, and count a failure as 0.
    """
    task.needs("tally", "gold")
    documents, failing = task.distinct_documents(case.samples), case.index
    responses = [_answered(task, document, place) for place, document in enumerate(documents)]
    if failing is not None:
        responses[failing % len(documents)] = OSError("planted: no response")
    tally = task.call("tally", documents, responses)
    if isinstance(tally, Raised):
        about = "a run without a failing document raised an error"
        expect(tally).holds(failing is not None, about=about, id="error", form="error")
        refused(tally)
        return
    detail = f"{show(tally)}\n{len(documents)} documents, {'none' if failing is None else 'one'} of them failing"
    expect(tally.asked).equals(
        len(documents), about="the documents that the run was asked for", id="asked", detail=detail
    )
    parts, about = tally.scored + tally.unscored + tally.failed, "scored, unscored and failed documents together"
    expect(parts).equals(tally.asked, about=about, id="sum", detail=detail)
    for name, value, total in _totals(task, tally.value, documents, responses) if tally.scored else ():
        about = f"the value{f' {name!r}' if name else ''} times the number of scored documents"
        expect(value * tally.scored).equals(total, about=about, id="value", detail=detail)


def _answered(task: TaskSubject, document: Any, place: int) -> Any:
    """Return the responses of a model that answers every second document correctly, and the others not at all."""
    answers = task.gold(document)
    if place % 2 or not answers:
        return task.responses(document, None, "") if task.generates(document) else task.wrong_responses(document)
    return task.responses(document, answers[0])


def _totals(task: TaskSubject, value: Any, documents: Sequence[Any], responses: Sequence[Any]) -> Iterator[Any]:
    """Yield the name of each value that is a mean of marks, the value, and the sum of these marks."""
    if task.record.score is None:
        return
    pairs = [(d, own) for d, own in zip(documents, responses, strict=True) if not isinstance(own, BaseException)]
    marks = [marks for d, own in pairs if not isinstance(marks := task.marks(d, own), Raised)]
    for name, mean in dict(value).items() if isinstance(value, Mapping) else {"": value}.items():
        if isinstance(mean, (int, float)) and len(marks) == len(pairs) and all(name in each for each in marks):
            yield name, mean, sum(each[name] for each in marks)
