"""EC706 to EC711: the ids that are sent are those of the whole prompt, which has what the task says and no more."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised, show
from pytest_evalcheck.expectations.failures import NotApplicable, compared, expect, inconclusive
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.task.cases import OneOfSeveral, SomeDocuments
from pytest_evalcheck.kinds.task.notices import noticed
from pytest_evalcheck.kinds.task.record import Request
from pytest_evalcheck.kinds.task.subject import TaskSubject


@check("EC706", conditions=("one document",))
def the_prompt_begins_with_one_beginning_of_text(task: TaskSubject, case: SomeDocuments) -> None:
    """The ids of a prompt begin with one beginning-of-text token, where the tokenizer or the template adds one.

    The ids of a continuation have none.

    Why: a second such token, or none, moves scores by several points for models that were trained with exactly one.
    Usual cause: a chat template that writes the token, and an encoding that adds it again; if `missing` fails,
    `add_special_tokens=False` for a text without a template.
    Fix: `tokenizer(text, add_special_tokens=not text.startswith(tokenizer.bos_token))`
    """
    tokenizer = task.needs("requests", "tokenizer", "encode").tokenizer
    first = getattr(tokenizer, "bos_token_id", None)
    if first is None:
        raise NotApplicable("the tokenizer has no beginning-of-text token")
    for request in _requests(task, case.samples):
        ids, continuation = _encoded(task, request)
        count = _leading(ids, first)
        wanted = max(_least(tokenizer, request, first), min(count, 1))
        about, detail = (
            "beginning-of-text tokens at the beginning of the prompt",
            f"ids: {show(ids)}\n{_shown(request)}",
        )
        if ids:
            expect(count).equals(wanted, about=about, id="missing" if count < wanted else "several", detail=detail)
        about = "beginning-of-text tokens in the ids of the continuation"
        expect(continuation.count(first)).equals(0, about=about, id="in-continuation", detail=detail)


@check("EC707", conditions=("one document",), after=("EC706",))
def the_chat_template_is_applied_once(task: TaskSubject, case: SomeDocuments) -> None:
    """The text of a prompt is that of its messages by the chat template, and its ids are those of the template.

    Where the last message is one of the assistant, the model continues it.

    Why: a model that reads its template twice, or in part, answers another question than it was trained for.
    Usual cause: a server that applies the template to a text which has it; if `ids` fails, special tokens that are
    added to the text of a template.
    Fix: `tokenizer.apply_chat_template(messages, add_generation_prompt=True)`, and send its ids.
    """
    tokenizer = task.needs("requests", "tokenizer").tokenizer
    if getattr(tokenizer, "chat_template", None) is None:
        raise NotApplicable("the tokenizer has no chat template")
    chats = [request for request in _requests(task, case.samples) if request.messages]
    if not chats:
        raise NotApplicable("no request has messages")
    for request in chats:
        text = _rendered(tokenizer, request, tokenize=False)
        if request.prompt:
            expect(request.prompt).equals(text, about="the prompt of messages in the chat template", id="text")
        if task.record.encode is not None:
            ids, about = _rendered(tokenizer, request, tokenize=True), "the ids that are sent for messages"
            sent, behind = _encoded(task, request)
            if request.continuation:  # a space at the end may belong to it, in one id with its first word: EC714
                sent, ids = [*sent, *behind][: len(ids) - 1], ids[:-1]
            expect(sent).equals(ids, about=about, id="ids", detail=_shown(request))


@check("EC708", conditions=("one document", "several documents"))
def the_prompt_has_the_question_and_all_fields(task: TaskSubject, case: SomeDocuments) -> None:
    """The question of a document is in its prompt, whole, with all choices and every field that the template names.

    A choice may be a continuation instead. A field may also be a condition of the template, or select a part of it:
    then another value makes another prompt. Documents with other right answers do not all have the same requests.

    Why: a model cannot answer what it was not asked; its score is that of a guess, and nothing fails.
    Usual cause: a name that the documents do not have, which a template renders as nothing; a split that cuts a
    question; letters for four choices of five.
    Fix: render templates with `jinja2.StrictUndefined`, and send the question as it is.
    """
    record = task.needs("requests")
    if record.question is None and record.choices is None and not record.fields and record.gold is None:
        raise NotApplicable("the task has no question and no fields: give ec.Task(question=...)")
    documents = task.distinct_documents(case.samples)
    _expect_other_requests(task, documents if record.gold is not None else [])
    for document in documents:
        text, shown = _text(task, document), f"document: {show(document)}"
        asked = None if record.question is None else task.call("question", document)
        whole = not isinstance(asked, str) or _words(asked) in _words(text)
        expect(text).holds(whole, about="the question is not in the prompt, whole", id="question", detail=shown)
        sent = _words("\n".join([text, *(each.continuation or "" for each in task.own_requests(document))]))
        for choice in task.choices(document):
            about = f"the choice {show(choice)} is neither in the prompt nor a continuation"
            expect(sent).holds(_words(str(choice)) in sent, about=about, id="choice", detail=shown)
        for name in record.fields if isinstance(document, Mapping) else ():
            present, about = name in document, f"the documents have no {name!r}, which the template names"
            expect(document).holds(present, about=about, id="field", detail=shown)
            about = f"the field {name!r}, which the template names, does not change the prompt"
            matters = not present or _matters(task, document, name, text)
            expect(text).holds(matters, about=about, id="unused", detail=shown)


@check("EC709", conditions=("one document", "several documents"))
def the_prompt_does_not_have_the_answer(task: TaskSubject, case: SomeDocuments) -> None:
    """The evaluated document is not among its shots, and another right answer does not change the prompt.

    Why: a model that is shown the answer copies it.
    Usual cause: shots are drawn from the evaluated documents, this one among them, or a template goes on to the answer.
    Fix: `pytest_evalcheck.fixes.tasks.shots_of(document, pool, count)`
    """
    task.needs("requests")
    inconclusive("the task has no shots, and no field of a document is its right answer")
    for document in task.distinct_documents(case.samples):
        if task.record.shots is not None:
            shots = task.call("shots", document)
            among = not isinstance(shots, Raised) and any(shot == document for shot in shots)
            expect(shots).holds(not among, about="the evaluated document is among its shots", id="among-shots")
        for changed, mark in _with_other_answer(task, document) if task.record.gold is not None else ():
            shown = f"with the answer {mark!r} the prompt has it: {show(changed)}"
            about = "the right answer is in the prompt"
            expect(document).holds(mark not in _text(task, changed), about=about, id="answer", detail=shown)


@check("EC710", conditions=("one of several documents",))
def the_requests_of_a_document_do_not_depend_on_others(task: TaskSubject, case: OneOfSeveral) -> None:
    """The requests of a document are the same alone, after others, in another order, and with a limit or several ranks.

    Why: with a limit, a shard or a resumed run, the same model would get another score for the same document.
    Usual cause: shots that are drawn from one generator of random numbers in the order of the documents; choices that
    are shuffled so.
    Fix: `pytest_evalcheck.fixes.tasks.shots_of`, or a generator for each document: `random.Random(document_id)`.
    """
    documents = task.distinct_documents(case.samples)
    expected = task.requests(documents)
    own = documents[min(case.index, len(documents) - 1)]
    if isinstance(expected, Raised) or len(documents) < 2:
        raise NotApplicable(f"several documents have no requests: {expected}" if len(documents) > 1 else "one document")
    place = documents.index(own)
    batches = {"alone": [own], "in another order": documents[::-1], "after others": [*documents[:place], own]}
    for name, batch in batches.items():
        found = task.requests(batch)
        found = found if isinstance(found, Raised) else found[batch.index(own)]
        expect(found).equals(expected[place], about=f"the requests of a document {name}", id=f"requests-{slug(name)}")
    for name in task.record.other_runs:
        found = task.call_other_run(name, documents)
        for index, requests in {0: found}.items() if isinstance(found, Raised) else found.items():
            requests = requests if isinstance(requests, Raised) else list(requests)
            expect(requests).equals(expected[index], about=f"the requests of the run {name!r}", id=f"run-{slug(name)}")


@check("EC711", conditions=("one document",))
def nothing_of_a_prompt_is_cut_in_silence(task: TaskSubject, case: SomeDocuments) -> None:
    """A prompt that is too long is refused, or a warning says that it is cut; its end, where the question is, stays.

    Why: a question that was cut is answered by a guess, and the score of a model depends on the length of its context.
    Usual cause: `truncation=True`, or a slice `ids[:max_length]`, which takes the end.
    Fix: leave out shots until the prompt fits; for one that does not fit without them, `raise ValueError(...)`.
    """
    task.needs("requests", "encode")
    for request in _requests(task, case.samples)[:1]:
        times = max(2, _LONG // max(1, len(request.text)))
        whole = _repeated(request, times)
        with noticed() as notices:
            found = task.encoded(whole)
        if isinstance(found, Raised):
            compared()
            continue
        ids, once = found[0], _encoded(task, request)[0]
        least = len(once) * times // 2
        detail = f"{len(ids)} ids of a text of {times} times {len(once)} ids; warnings: {notices or 'none'}"
        told = len(ids) >= least or any(_says_cut(text) for text in notices)
        expect(len(ids)).holds(told, about="a long prompt was cut in silence", id="silent", detail=detail)
        end = 0 if len(ids) < 4 or len(once) < 4 else 4
        expect(ids[-end:]).equals(once[-end:], about="the last ids of a long prompt", id="end", detail=detail)


_ENOUGH = 3
"""The fewest documents that cannot all be the same question by chance."""
_LONG = 100_000
"""Number of characters of a long prompt."""


def _requests(task: TaskSubject, samples: Sequence[Any]) -> list[Request]:
    """Return the requests of documents.

    Raises:
        NotApplicable: where they cannot be built.
    """
    found = task.requests(task.distinct_documents(samples))
    if isinstance(found, Raised):
        raise NotApplicable(f"the requests cannot be built: {found}")
    return [request for own in found for request in own]


def _encoded(task: TaskSubject, request: Request) -> tuple[list[int], list[int]]:
    found = task.encoded(request)
    if isinstance(found, Raised):
        raise NotApplicable(f"a prompt cannot be encoded: {found}")
    return found  # type: ignore[no-any-return]


def _shown(request: Request) -> str:
    return f"prompt: {show(request.prompt or request.messages)}"


def _text(task: TaskSubject, document: Any) -> str:
    return "\n".join(request.text for request in task.own_requests(document))


def _words(text: str) -> str:
    return " ".join(text.split())


def _leading(ids: Sequence[int], first: int) -> int:
    return next((place for place, token in enumerate(ids) if token != first), len(ids))


def _least(tokenizer: Any, request: Request, first: int) -> int:
    """Return how many beginning-of-text tokens the tokenizer itself puts before such a prompt: 0 or 1."""
    chat = request.messages and getattr(tokenizer, "chat_template", None) is not None
    ids = _rendered(tokenizer, request, tokenize=True) if chat else tokenizer.encode("a")
    return min(1, _leading(ids, first))


def _rendered(tokenizer: Any, request: Request, *, tokenize: bool) -> Any:
    """Return messages as the chat template gives them: as text, or as ids."""
    messages = [dict(message) for message in request.messages]
    continues = messages[-1].get("role") == "assistant"
    options = {"continue_final_message": True} if continues else {"add_generation_prompt": True}
    found = attempt("the chat template", tokenizer.apply_chat_template, messages, tokenize=tokenize, **options)
    if isinstance(found, Raised):
        raise NotApplicable(f"the chat template cannot be applied: {found}")
    return list(found["input_ids"]) if isinstance(found, Mapping) or hasattr(found, "keys") else found


def _repeated(request: Request, times: int) -> Request:
    """Return a request with its text many times."""
    if request.prompt:
        return replace(request, prompt=request.prompt * times)
    messages = [dict(message) for message in request.messages]
    asked = next((each for each in messages if each.get("role") == "user"), messages[-1] if messages else {})
    if not isinstance(asked.get("content"), str):
        raise NotApplicable("the messages have no text that can be longer")
    asked["content"] *= times
    return replace(request, messages=messages)


def _says_cut(text: str) -> bool:
    return re.search(r"trunc|\bcut|drop|clip|shorten|discard", text, re.I) is not None


def _matters(task: TaskSubject, document: Mapping[str, Any], name: str, text: str) -> bool:
    """Return whether another value of a field makes another prompt, or none at all; None may be a condition."""
    for other in (*_others(document[name]), None):
        found = task.requests([{**document, name: other}])
        if isinstance(found, Raised) and other is not None:
            return True
        if not isinstance(found, Raised) and "\n".join(request.text for request in found[0]) != text:
            return True
    return False


def _others(value: Any) -> Iterator[Any]:
    """Yield other values of a field; of one whose type says nothing, what no template renders."""
    if isinstance(value, str):
        yield from (f"{value} zq", "")
    elif isinstance(value, (list, tuple)):
        yield from ([*(next(_others(each)) for each in value)], [])
    elif isinstance(value, (bool, int, float)):
        yield from (value + 1, 0)
    elif isinstance(value, Mapping):
        yield {key: next(_others(each)) for key, each in value.items()}
    else:
        yield "zq"


def _expect_other_requests(task: TaskSubject, documents: Sequence[Any]) -> None:
    """Compare the requests of documents, each alone; two of them may be the same question with another answer."""
    answers = [answer for document in documents if (answer := task.gold(document))]
    if len(documents) < _ENOUGH or len(answers) < len(documents) or all(own == answers[0] for own in answers):
        inconclusive("these documents are fewer than three, or have the same right answer")
        return
    own = [task.own_requests(document) for document in documents]
    detail = f"right answers: {show(answers)}\n{_shown(own[0][0]) if own[0] else 'no request'}"
    same = all(each == own[0] for each in own)
    about = "documents with other right answers have the same requests"
    expect(own[0]).holds(not same, about=about, id="same-requests", detail=detail)


def _with_other_answer(task: TaskSubject, document: Any) -> Iterator[tuple[Any, str]]:
    """Yield a document with another right answer in the place of its own, and this answer."""
    answers = task.gold(document)
    if not isinstance(document, Mapping) or task.record.choices is not None or len(answers) != 1:
        return
    for mark in ("918273645", "zqxjk"):
        for name in (name for name, value in document.items() if value == answers[0]):
            changed = {**document, name: mark}
            found = task.call("gold", changed)
            if not isinstance(found, Raised) and found in (mark, [mark]):
                yield changed, mark
                return
