"""EC701 to EC705: right answers get the full mark, in every form, and others do not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised, show
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive, refused
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.task.cases import (
    ManyDocuments,
    Rewritten,
    RewrittenNotation,
    RewrittenResponse,
    SomeDocuments,
)
from pytest_evalcheck.kinds.task.subject import TaskSubject
from pytest_evalcheck.strategies.documents import EMPTY, REFUSALS, wrong_answers


@check("EC701", conditions=("one document", "several documents"))
def the_right_answer_gets_the_full_mark(task: TaskSubject, case: ManyDocuments) -> None:
    """The right answer of a document, as the task itself has it, gets the full mark by the task's own scoring.

    Each of several right answers does, in the form that the prompt asks for.

    Why: a document whose own answer counts as wrong lowers the number of every model.
    Usual cause: an extraction that knows one form of answers, or a label that is not that of the right choice.
    Fix: `assert score(document, [gold(document)]) == 1` for every document, in a test of the task.
    """
    task.needs("gold", "score")
    answers = [
        (document, answer) for document in task.distinct_documents(case.samples) for answer in task.gold(document)
    ]
    if not answers:
        inconclusive("these documents have no right answer")
    for document, answer in answers:
        responses = task.responses(document, answer)
        _expect_full(task, document, responses, f"of the right answer {show(answer)}", "right-answer")


@check("EC702", conditions=("a rewriting",), after=("EC701",))
def the_notation_of_an_answer_does_not_change_the_mark(task: TaskSubject, case: RewrittenNotation) -> None:
    """A right answer gets the full mark in another notation: `$29`, `29.0`, `29,000`, letters of another case.

    Rewritings that are another answer in a task are declared: `strategies.documents(unequal={"case": "why"})`.

    Why: two models that know the same get other scores, because one of them writes numbers with a comma.
    Usual cause: answers are compared as texts, or an expression takes a part of the number: `29` of `29,000`.
    Fix: `pytest_evalcheck.fixes.tasks.gives_answer` compares numbers as numbers, and words after `casefold()`.
    """
    _expect_rewritten(task, case)


@check("EC703", conditions=("a rewriting",), after=("EC701", "EC702"))
def what_stands_around_an_answer_does_not_change_the_mark(task: TaskSubject, case: RewrittenResponse) -> None:
    r"""A right answer gets the full mark in bold, in a box, in a sentence, with a full stop, after an explanation.

    A reasoning model writes its thoughts before it.

    A response that the task's own stop sequences would end is not tried.

    Why: chat models write sentences and markup, and reasoning models think first; a score must not depend on that.
    Usual cause: the whole response is compared, or an expression is anchored to its beginning or its end.
    Fix: `pytest_evalcheck.fixes.tasks.gives_answer`, or `final_answer` beside it: without thoughts and markup.
    """
    _expect_rewritten(task, case)


@check("EC704", conditions=("one document", "several documents"), after=("EC701",))
def a_wrong_answer_does_not_get_the_full_mark(task: TaskSubject, case: SomeDocuments) -> None:
    """A wrong answer does not get the full mark: a number that holds the right one, another choice, another answer.

    Its words in another order are wrong, too, unless it is a list.

    Why: a mark that any answer gets says nothing about a model.
    Usual cause: `gold in response`, which finds 29 in 129; or answers whose signs, points or order are ignored.
    Fix: `pytest_evalcheck.fixes.tasks.gives_answer` compares the whole answer.
    """
    task.needs("gold", "score")
    inconclusive("these documents have no right answer, or no wrong one is known")
    for document in task.distinct_documents(case.samples):
        right = {_plain(answer) for answer in task.gold(document)}
        for wrong in _wrong(task, document, case.samples) if right else ():
            if _plain(wrong) not in right:
                responses = task.responses(document, wrong)
                _expect_less(task, document, responses, f"of the wrong answer {show(wrong)}", "wrong-answer")


@check("EC705", conditions=("one document", "several documents"), after=("EC701",))
def no_answer_does_not_get_the_full_mark(task: TaskSubject, case: SomeDocuments) -> None:
    """An empty response and a refusal do not get the full mark.

    Why: a model that fails, or refuses, would be the best one.
    Usual cause: a failed extraction that is compared with a failed extraction of the right answer, or `"" in gold`.
    Fix: `if not answer: return 0.0`, before anything is compared.
    """
    task.needs("gold", "score")
    for document in task.distinct_documents(case.samples):
        answers = [_plain(answer) for answer in task.gold(document)]
        if not answers or not task.generates(document):
            inconclusive("the document has no right answer, or no request generates a text")
            continue
        for text in (*EMPTY, *REFUSALS):
            if not any(_gives(text, answer) for answer in answers):
                responses = task.responses(document, None, text)
                kind = "an empty response" if text in EMPTY else f"the refusal {text!r}"
                _expect_less(task, document, responses, f"of {kind}", "no-answer" if text in EMPTY else "refusal")


def _expect_rewritten(task: TaskSubject, case: Rewritten) -> None:
    task.needs("gold", "score")
    if not case.names:
        raise NotApplicable("every such rewriting is declared to be another answer")
    inconclusive("no right answer can be rewritten so, or no request generates a text")
    for document in task.distinct_documents(case.samples):
        stops = {stop for request in task.own_requests(document) for stop in request.stops}
        for answer in task.gold(document):
            text = task.rewritten(document, answer, case.names)
            if text is None or any(stop in text for stop in stops) or not task.generates(document):
                continue
            plain = task.marks(document, task.responses(document, answer))
            if isinstance(plain, Raised) or set(plain.values()) != {1.0}:
                inconclusive("the right answer itself does not get the full mark, see EC701")
                continue
            about = f"of the right answer {show(answer)} written as {show(text)}"
            id = f"written-with-{slug(case.names[0])}" if len(case.names) == 1 else "written-with-several"
            _expect_full(task, document, task.responses(document, answer, text), about, id)


def _expect_full(task: TaskSubject, document: Any, responses: Sequence[Any], about: str, id: str) -> None:
    marks = task.marks(document, responses)
    for name, mark in {"": marks}.items() if isinstance(marks, Raised) else marks.items():
        detail = "" if mark == 1 else task.described(document, responses)
        expect(mark).equals(1.0, about=f"the mark{f' {name!r}' if name else ''} {about}", id=id, detail=detail)


def _expect_less(task: TaskSubject, document: Any, responses: Sequence[Any], about: str, id: str) -> None:
    marks = task.marks(document, responses)
    if isinstance(marks, Raised):
        refused(marks)
        return
    for name, mark in marks.items():
        said = f"the full mark{f' {name!r}' if name else ''} {about}"
        detail = "" if mark < 1 else task.described(document, responses)
        expect(mark).holds(mark < 1, about=said, id=id, detail=detail)


def _plain(answer: Any) -> str:
    return str(answer).strip().casefold()


def _gives(text: str, answer: str) -> bool:
    """Return whether a text that gives no answer to other questions holds this answer, or is a part of it."""
    words = _plain(text)
    return bool(words and words in answer) or re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", words) is not None


def _wrong(task: TaskSubject, document: Any, samples: Sequence[Any]) -> list[Any]:
    """Return wrong answers to a document: near the right ones, other choices, and those of other documents."""
    answers = task.gold(document)
    found: list[Any] = [wrong for answer in answers if isinstance(answer, str) for wrong in wrong_answers(answer)]
    choices = task.choices(document)
    places = {choices.index(answer) if answer in choices else answer for answer in answers}
    if places and places <= {*range(len(choices))}:
        return [place for place, text in enumerate(choices) if place not in places and text not in answers]
    others = (task.document(row + 1) for row in samples[:4] if isinstance(row, int))
    return [*found, *(answer for other in others for answer in task.gold(other) if isinstance(answer, str))]
