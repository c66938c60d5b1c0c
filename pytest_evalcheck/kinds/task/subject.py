"""The task under test, which checks call: documents by index, requests, and marks of answers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

from pytest_evalcheck.expectations.comparison import Raised, show
from pytest_evalcheck.expectations.failures import NotApplicable, TargetError
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.process_state import other_random_numbers, restored_settings, same_random_numbers
from pytest_evalcheck.kinds.common.subject import Rows, Subject
from pytest_evalcheck.kinds.task.record import Document, Request, Task
from pytest_evalcheck.strategies.documents import Documents, Rewriting, rewritten

RIGHT, WRONG, ALONE = (-0.5, True), (-1000.0, False), (-10.0, False)
"""Log-likelihood and greediness of the continuation that a model prefers, of every other one, and of one without its
question, from which a task may take the difference."""


@dataclass(frozen=True)
class TaskSubject(Subject):
    """The task under test: new records on demand, and its documents by index."""

    kind: ClassVar[str] = "task"

    build: Callable[[], Task]

    @cached_property
    def record(self) -> Task:
        """A record of the task."""
        return self.build()

    def needs(self, *names: str) -> Task:
        """Return the record, if it has these fields.

        Raises:
            NotApplicable: where one is left out, with what to give.
        """
        for name in names:
            value = getattr(self.record, name)
            if value is None or (isinstance(value, (Mapping, Sequence)) and not len(value)):
                raise NotApplicable(f"the task has no {name}: give ec.Task({name}=...)")
        return self.record

    @cached_property
    def documents(self) -> Sequence[Document]:
        """The documents: those of the inputs, else those of the task.

        Raises:
            NotApplicable: where there are none.
        """
        own = self.inputs.documents if isinstance(self.inputs, Documents) else ()
        found = own if len(own) else self.record.documents
        if not len(found):
            raise NotApplicable("the task has no documents: give inputs=strategies.documents([...])")
        return found

    def document(self, row: Any) -> Document:
        """Return a new copy of the document of a sample: an index, or a document itself."""
        return copy.deepcopy(self.documents[row % len(self.documents)] if isinstance(row, int) else row)

    def distinct_documents(self, rows: Rows) -> list[Document]:
        """Return the different documents of samples."""
        found = {repr(document): document for document in map(self.document, rows)}
        return list(found.values())

    def call(self, name: str, *arguments: Any, record: Task | None = None) -> Any:
        """Return what a callable of the record gives, or the error; from the same random numbers every time.

        Raises:
            NotApplicable: where it is left out.
        """
        function = getattr(record or self.needs(name), name)
        with restored_settings(), same_random_numbers():
            return attempt(name, function, *arguments)

    def gold(self, document: Document) -> list[Any]:
        """Return the right answers of a document; none where it has none."""
        found = self.call("gold", document)
        if isinstance(found, Raised):
            raise TargetError(
                "gold() raised an error", actual=str(found), expected="an answer", origin=found.origin, cause="gold"
            )
        answers = list(found) if isinstance(found, (list, tuple, set, frozenset)) else [found]
        return [answer for answer in answers if answer is not None and answer != ""]

    def choices(self, document: Document) -> list[str]:
        """Return the texts of the choices of a document; none where it has none.

        Raises:
            NotApplicable: where they cannot be found.
        """
        found = [] if self.record.choices is None else self.call("choices", document)
        if isinstance(found, Raised):
            raise NotApplicable(f"the choices of a document cannot be found: {found}")
        return list(found)

    def requests(self, documents: Sequence[Document], *, draw: int = 0) -> Any:
        """Return the requests of each document, in their order, or the error.

        With a ``draw`` they are those of a new task, which is made and asked with other random numbers.
        """
        self.needs("requests")
        with other_random_numbers(draw):
            found = self.call("requests", list(documents), record=self.build() if draw else self.record)
        if isinstance(found, Raised):
            return found
        requests = [list(own) for own in found]
        if len(requests) != len(documents) or any(not isinstance(r, Request) for own in requests for r in own):
            raise TargetError(
                "requests() gave no list of requests for each document",
                actual=show(requests)[:200],
                expected=f"{len(documents)} lists of ec.Request",
                cause="requests",
            )
        return requests

    def request_texts(self, rows: Rows) -> list[Any]:
        """Return what is sent for some samples as plain data.

        Raises:
            NotApplicable: where the requests cannot be built.
        """
        found = self.requests(self.distinct_documents(rows))
        if isinstance(found, Raised):
            raise NotApplicable(f"the requests cannot be built: {found}")
        return [[[each.text, each.continuation, list(each.stops), each.max_tokens] for each in own] for own in found]

    def own_requests(self, document: Document) -> list[Request]:
        """Return the requests of a document alone; one request without text where the task does not say.

        They are built once for a document of a case.

        Raises:
            NotApplicable: where they cannot be built.
        """
        if self.record.requests is None:
            return [Request()]
        key = repr(document)
        found = self._own_requests.get(key) or self._own_requests.setdefault(key, self.requests([document]))
        if isinstance(found, Raised):
            raise NotApplicable(f"the requests of a document cannot be built: {found}")
        return cast("list[Request]", found[0])

    @cached_property
    def _own_requests(self) -> dict[str, Any]:
        return {}

    def generates(self, document: Document) -> bool:
        """Return whether the model generates the responses to a document."""
        return all(request.continuation is None for request in self.own_requests(document))

    def encoded(self, request: Request) -> Any:
        """Return the ids of a prompt and of its continuation, or the error."""
        found = self.call("encode", request)
        if isinstance(found, Raised):
            return found
        prompt, continuation = found
        return [int(i) for i in prompt], [int(i) for i in continuation]

    def response(self, document: Document, answer: Any) -> str:
        """Return the text by which a model gives an answer.

        Raises:
            TargetError: where the record gives no text.
        """
        if self.record.response is None:
            return chr(ord("A") + answer) if isinstance(answer, int) else str(answer)
        text = self.call("response", document, answer)
        if not isinstance(text, str):
            raise TargetError("response() gave no text", actual=show(text)[:200], expected="a text", cause="response")
        return text

    def responses(self, document: Document, answer: Any, text: str | None = None) -> list[Any]:
        """Return a response to each request of a document by a model that gives this answer.

        It generates ``text``, by default the answer in the form that the prompt asks for, and prefers the continuation
        with the answer to all others.

        Raises:
            NotApplicable: where no continuation has the answer.
        """
        requests = self.own_requests(document)
        text = self.response(document, answer) if text is None else text
        scored = [request for request in requests if request.continuation is not None]
        place, count = self._choice(document, answer, scored) if scored else (0, 0)
        preferences = (RIGHT if i == place else WRONG if i < count else ALONE for i in range(len(scored)))
        return [text if request.continuation is None else next(preferences) for request in requests]

    def wrong_responses(self, document: Document) -> list[Any]:
        """Return responses of a model that prefers no continuation."""
        return ["" if request.continuation is None else WRONG for request in self.own_requests(document)]

    def _choice(self, document: Document, answer: Any, scored: Sequence[Request]) -> tuple[int, int]:
        """Return the place of an answer among the choices, and their number."""
        choices = self.choices(document)
        if isinstance(answer, int):
            return answer, len(choices) or len(scored)
        if answer in choices:
            return choices.index(answer), len(choices)
        if len(scored) == 1 and answer in self.gold(document):
            return 0, 1
        raise NotApplicable(f"no continuation of the document gives the answer {answer!r}: give ec.Task(choices=...)")

    def call_other_run(self, name: str, documents: Sequence[Document]) -> Any:
        """Return the requests of another run by the index of their document, or the error."""
        with restored_settings(), same_random_numbers():
            return attempt(name, self.record.other_runs[name], list(documents))

    def marks(self, document: Document, responses: Sequence[Any]) -> Any:
        """Return the marks of a document by name (one mark has the name ''), or the error."""
        found = self.call("score", document, responses)
        if isinstance(found, Raised):
            return found
        marks = dict(found) if isinstance(found, Mapping) else {"": found}
        try:
            return {str(name): float(mark) for name, mark in marks.items()}
        except (TypeError, ValueError):
            raise TargetError(
                "score() gave no mark", actual=show(found)[:200], expected="a number, or several by name", cause="score"
            ) from None

    def plain_result(self, rows: Rows) -> Any:
        """Return the marks of right answers, else the number of requests, of some documents.

        Raises:
            NotApplicable: where the record has neither.
        """
        documents = self.distinct_documents(rows)
        if self.record.requests is not None:
            requests = self.requests(documents)
            if isinstance(requests, Raised):
                return requests
        if self.record.score is None or self.record.gold is None:
            self.needs("requests")
            return [len(own) for own in requests]
        marks = [
            self.marks(document, self.responses(document, answer))
            for document in documents
            for answer in self.gold(document)[:1]
        ]
        return next((each for each in marks if isinstance(each, Raised)), marks or [0])

    @property
    def rewritings(self) -> Mapping[str, Rewriting]:
        """The rewritings of right answers, without those that are another answer in this task."""
        known = self.inputs.rewritings if isinstance(self.inputs, Documents) else {}
        own = self.inputs.unequal if isinstance(self.inputs, Documents) else {}
        unequal = {*own, *self.record.unequal}
        return {name: each for name, each in known.items() if name not in unequal}

    def rewritten(self, document: Document, answer: Any, names: Sequence[str]) -> str | None:
        """Return the response that gives an answer with rewritings; None where one does not apply.

        Of the index of a choice its letter, or what else stands for it, is rewritten.
        """
        known = self.rewritings
        if any(name not in known for name in names):
            return None
        if isinstance(answer, int):
            return rewritten(self.response(document, answer), names, rewritings=known)
        return rewritten(answer, names, rewritings=known, response=lambda text: self.response(document, text))

    def described(self, document: Document, responses: Sequence[Any]) -> str:
        """Return lines about a document: its responses, and what is extracted from them where the task says it."""
        lines = [f"document: {show(document)}", f"responses: {show(list(responses))}"]
        if self.record.answer is not None:
            lines.append(f"extracted: {show(self.call('answer', document, responses))}")
        return "\n".join(lines)
