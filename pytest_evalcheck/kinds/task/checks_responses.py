"""EC712 to EC715: stop sequences, continuations and choices leave a right answer as it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised, show
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.task.cases import Cut, ManyDocuments, OneOfSeveral, Reordered
from pytest_evalcheck.kinds.task.subject import TaskSubject


@check("EC712", conditions=("one document", "several documents"), after=("EC701",))
def no_stop_sequence_ends_a_right_answer(task: TaskSubject, case: ManyDocuments) -> None:
    """A right answer, in the form that the prompt asks for, holds no stop sequence of its own request.

    One in the white space around the answer does not matter, nor one behind which nothing is scored: what is left gets
    the marks of the whole, and one of them at least is above 0.

    Why: a model that answers correctly is stopped before its answer; no model can get the full mark.
    Usual cause: stop sequences of another prompt, such as a newline for answers of several lines, a period for `2.5`.
    Fix: `assert not any(stop in response for stop in stops)` for the right answer of every document.
    """
    task.needs("requests", "gold")
    inconclusive("no request of these documents has a stop sequence, or they have no right answer")
    for document in task.distinct_documents(case.samples):
        stops = [stop for request in task.own_requests(document) for stop in request.stops if stop]
        for answer in task.gold(document) if stops and task.generates(document) else ():
            text = task.response(document, answer)
            cut = _cut_at_stops(text, stops)
            harmless = cut.strip() == text.strip() or _same_marks(task, document, text, cut)
            detail = f"stop sequences: {show(stops)}\ndocument: {show(document)}"
            about = f"a stop sequence cuts the right answer {show(text)} to {show(cut)}"
            expect(text).holds(harmless, about=about, id="cut-answer", detail=detail)


@check("EC713", conditions=("one of several documents",))
def a_response_ends_at_its_own_stop_sequences(task: TaskSubject, case: OneOfSeveral) -> None:
    """Each response of a batch is cut at the first stop sequence of its own request, and at no other.

    White space around a response may be removed.

    Why: another request of the batch would change a response, so that a score depends on the batch size.
    Usual cause: the stop sequences of the first request are used for the whole batch, or only the first of several.
    Fix: `pytest_evalcheck.fixes.tasks.cut_at_stops(text, request.stops)` for each request.
    """
    task.needs("requests", "cut")
    found = task.requests(task.distinct_documents(case.samples))
    own = [] if isinstance(found, Raised) else [each for requests in found for each in requests]
    requests = [each for each in own if each.continuation is None]
    if len(requests) < 2:
        raise NotApplicable("fewer than two requests generate a text")
    stops = (("\n\n",), ("Question:", "###"), ("###",), ())
    for batch in (requests, [replace(each, stops=stops[i % len(stops)]) for i, each in enumerate(requests)]):
        texts = [f"{i} is it.### No.\n\nQuestion: {i}\n\n###" for i in range(len(batch))]
        wanted = [_cut_at_stops(text, each.stops).strip() for text, each in zip(texts, batch, strict=True)]
        responses = task.call("cut", batch, texts)
        responses = responses if isinstance(responses, Raised) else [text.strip() for text in responses]
        detail = f"stop sequences: {show([list(each.stops) for each in batch])}"
        expect(responses).equals(wanted, about="the responses of a batch", id="cut-at-stops", detail=detail)


@check("EC714", conditions=("the task's own cut",), after=("EC706",))
def the_ids_of_a_continuation_are_those_of_the_whole_text(task: TaskSubject, case: Cut) -> None:
    """The ids of a prompt and of its continuation together are the ids of the whole text, before and after any space.

    No task divides a word. A text with special tokens, such as one in a chat template, is divided where the task
    divides it, and nowhere else.

    Why: a model has never read the other ids; their log-likelihood is that of a text nobody writes.
    Usual cause: both parts are encoded alone, so that a space or a syllable at the division gets other ids; a space
    before the continuation is lost or doubled.
    Fix: `pytest_evalcheck.fixes.tasks.encode_pair` encodes the whole text and divides its ids.
    """
    task.needs("requests", "encode")
    inconclusive("no request has a continuation that can be divided so")
    special = getattr(task.record.tokenizer, "all_special_tokens", None) or ()
    for document in task.distinct_documents(case.samples):
        for request in task.own_requests(document):
            if request.continuation is None:
                continue
            text = request.prompt + request.continuation
            if case.share is not None and any(token in text for token in special):
                continue
            whole = task.encoded(replace(request, prompt=text, continuation=""))
            whole = whole if isinstance(whole, Raised) else whole[0]
            for place in [len(request.prompt)] if case.share is None else _beside_a_space(text, case.share):
                ids = task.encoded(replace(request, prompt=text[:place], continuation=text[place:]))
                about = f"the ids of {show(text[:place][-20:])} and {show(text[place:][:20])}"
                ids = ids if isinstance(ids, Raised) else [*ids[0], *ids[1]]
                expect(ids).equals(whole, about=about, id="own-cut" if case.share is None else "another-cut")


def _beside_a_space(text: str, share: float) -> list[int]:
    """Return the places before and after the first space in the last part of a text."""
    place = text.find(" ", round(share * len(text)))
    return [] if place < 1 else [place, place + 1]


@check("EC715", conditions=("choices in another order",), after=("EC701",))
def choices_keep_their_labels_when_they_are_reordered(task: TaskSubject, case: Reordered) -> None:
    """In another order of the choices each place keeps its label, and the mark follows the content of a choice.

    Why: choices are shuffled against a preference for the first one; a label that stays with its content, or a right
    answer that stays in its place, scores every model at random.
    Usual cause: the right answer is an index that is not moved; labels are sorted with their choices.
    Fix: move the index: `gold = order.index(gold)`, and give labels after the choices have their order.
    """
    record = task.needs("choices", "reordered")
    for document in task.distinct_documents(case.samples):
        choices = task.choices(document)
        order = [*(place for place in case.order if place < len(choices)), *range(len(case.order), len(choices))]
        other = task.call("reordered", document, order)
        if isinstance(other, Raised) or len(set(choices)) < len(choices) or len(choices) < 2:
            inconclusive(f"choices that cannot be reordered: {other if isinstance(other, Raised) else choices}")
            continue
        detail = f"document: {show(document)}\nin another order: {show(other)}"
        moved = [choices[place] for place in order]
        expect(task.choices(other)).equals(moved, about="the choices", id="choices", detail=detail)
        layout, reference = _layout(task, other, moved), _layout(task, document, choices)
        if layout is not None and reference is not None and _same_shots(task, document, other):
            expect(layout).equals(reference, about="the prompt, without its choices", id="labels", detail=detail)
        for place, choice in enumerate(choices) if record.score is not None else ():
            marks = task.marks(document, task.responses(document, place))
            about = f"the marks of the choice {show(choice)}"
            found = task.marks(other, task.responses(other, order.index(place)))
            expect(found).equals(marks, about=about, id="marks", detail=detail)


def _cut_at_stops(text: str, stops: Sequence[str]) -> str:
    """Return a text up to the first of some stop sequences."""
    places = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    return text[: min(places)] if places else text


def _same_marks(task: TaskSubject, document: Any, text: str, cut: str) -> bool:
    if task.record.score is None:
        return False
    marks = task.marks(document, task.responses(document, None, text))
    some = not isinstance(marks, Raised) and any(marks.values())
    return some and marks == task.marks(document, task.responses(document, None, cut))


def _same_shots(task: TaskSubject, document: Any, other: Any) -> bool:
    """Return whether a document has the same shots in another order of its choices, and is none of them itself.

    A sampler may leave out the document, which it does not know in another order.
    """
    if task.record.shots is None:
        return True
    shots, others = (task.call("shots", each) for each in (document, other))
    return not isinstance(shots, Raised) and shots == others and document not in shots


def _layout(task: TaskSubject, document: Any, choices: Sequence[str]) -> Any:
    """Return the requests of a document with a sign in the place of each choice; continuations in their order.

    None where a text has a choice several times, as a passage does that names it: which one is the choice is not known.
    """
    found = None if task.record.requests is None else task.requests([document])
    if found is None or isinstance(found, Raised):
        return found
    if any(request.text.count(choice) > 1 for request in found[0] for choice in choices):
        return None
    signs = {choice: f"<choice {place}>" for place, choice in enumerate(choices)}
    expression = re.compile("|".join(map(re.escape, sorted(signs, key=len, reverse=True))))

    def replaced(text: str) -> str:
        return expression.sub(lambda match: signs[match[0]], text)

    return [(replaced(request.text), replaced(request.continuation or "")) for request in found[0]]
