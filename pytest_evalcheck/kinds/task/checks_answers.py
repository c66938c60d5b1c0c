"""EC701 to EC705: right answers get the full mark, in every form, and others do not."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import Raised, show
from pytest_evalcheck.expectations.failures import expect, inconclusive
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.task.cases import SomeDocuments
from pytest_evalcheck.kinds.task.subject import TaskSubject


@check("EC701", conditions=("one document", "several documents"), severity="error")
def the_right_answer_gets_the_full_mark(task: TaskSubject, case: SomeDocuments) -> None:
    """The right answer of a document, as the task itself has it, gets the full mark by the task's own scoring.

    Each of several right answers does, in the form that the prompt asks for.

    Why: a document whose own answer counts as wrong lowers every model, and by another amount for each.
    Usual cause: an extraction or a filter that knows one form of answers, or labels that do not fit the choices.
    Fix: score `gold(document)` of every document in a test of the task, and correct what is not 1.
    """
    task.needs("gold", "score")
    for document in task.those(case.samples):
        for answer in task.gold(document):
            responses = task.responses(document, answer)
            marks = task.marks(document, responses)
            for name, mark in {"": marks}.items() if isinstance(marks, Raised) else marks.items():
                about = f"the mark{f' {name!r}' if name else ''} of the right answer {show(answer)}"
                detail = f"document: {show(document)}\nresponses: {show(responses)}\n{task.extracted(document, responses)}"
                expect(mark).equals(1.0, about=about, id="right-answer", detail=detail.strip())
    if not any(task.gold(document) for document in task.those(case.samples)):
        inconclusive("these documents have no right answer")
