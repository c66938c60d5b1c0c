"""The record that describes a task, as callables from a document to its score."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_evalcheck.expectations.call_log import called

Document = Any
"""A thing that is evaluated: a mapping of fields, or an object of a library."""
Message = Mapping[str, Any]
"""A message to a chat model: ``{"role": "user", "content": "..."}``."""
Response = Any
"""Answer of a model to one request: the generated text, or ``(logprob, is_greedy)`` of a continuation."""
Marks = float | Mapping[str, float]
"""The mark of a document, from 0 for wrong to 1 for right, or several by name."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request to the model, as it is sent."""

    prompt: str = ""
    """The text, after the chat template where there is one; empty where only messages are sent."""
    messages: Sequence[Message] = ()
    """The messages, before any chat template; empty for a task that sends plain text."""
    continuation: str | None = None
    """The text whose log-likelihood is asked for; None where the model generates."""
    stops: Sequence[str] = ()
    """The texts at which a generated response ends."""
    max_tokens: int | None = None
    """The number of tokens that may be generated; None where the request does not say."""

    @property
    def text(self) -> str:
        """All text that the model reads before its response."""
        return self.prompt or "\n".join(_text_of(message.get("content")) for message in self.messages)


def _text_of(content: Any) -> str:
    if isinstance(content, (list, tuple)):  # parts: {"type": "text", "text": "..."} beside images
        return "\n".join(_text_of(part.get("text")) for part in content if isinstance(part, Mapping))
    return "" if content is None else str(content)


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Report of a run beside its value: how many documents were asked, and what became of them."""

    asked: int
    """Documents that the run was asked to evaluate."""
    scored: int
    """Documents that the value counts."""
    unscored: int = 0
    """Documents with a response that the report says have no score."""
    failed: int = 0
    """Documents without a response, or whose scoring raised an error, as the report says."""
    value: Any = None
    """The value of the run: the mean mark, or several by name."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """Description of a task, as callables from a document to its score. Every one may be left out.

    A check that needs a field which is left out is not applicable, e.g. EC701 without ``gold``. A document is whatever
    ``documents`` holds; the callables do not change it.
    """

    documents: Sequence[Document] = ()
    """The documents. Those of the decorator, ``inputs=strategies.documents([...])``, are used instead of them."""
    requests: Callable[[Sequence[Document]], Sequence[Sequence[Request]]] | None = None
    """``requests(documents)`` returns the requests of each of these documents, in their order, as one run would build
    them: with shots, chat template and options of the task."""
    other_runs: Mapping[str, Callable[[Sequence[Document]], Mapping[int, Sequence[Request]]]] = field(
        default_factory=dict
    )
    """Other runs that send the same requests, by name, e.g. ``"limit 2"``, ``"rank 1 of 2"``: each returns the requests
    by the index of their document, for the documents that it evaluates."""
    gold: Callable[[Document], Any] | None = None
    """``gold(document)`` returns the right answer, or a list of answers that are all right: a text as the task has it
    (``"29"``), or the index of a choice (an int)."""
    response: Callable[[Document, Any], str] | None = None
    """``response(document, answer)`` returns the text by which a model that follows the prompt gives an answer, such as
    ``"#### 29"``: the answer is a text, or the index of a choice. By default it is that text, or the letter of the
    choice (``"A"`` for 0)."""
    score: Callable[[Document, Sequence[Response]], Marks] | None = None
    """``score(document, responses)`` returns the mark of a document, with one response to each of its requests: the
    task's own filters, extraction and metric. With several marks by name, properties hold for each one."""
    answer: Callable[[Document, Sequence[Response]], Any] | None = None
    """``answer(document, responses)`` returns what is extracted from the responses, which failures show."""
    unequal: Mapping[str, str] = field(default_factory=dict)
    """Rewritings of a right answer that are wrong in this task, with the reason: ``{"case": "answers are names"}``.
    The names are those of ``strategies.Rewriting``."""
    question: Callable[[Document], str] | None = None
    """``question(document)`` returns the text that the prompt must hold whole."""
    fields: Sequence[str] = ()
    """The names of the fields of a document (a mapping) that the template of the prompt names."""
    shots: Callable[[Document], Sequence[Document]] | None = None
    """``shots(document)`` returns the documents that are shown as examples before this one."""
    choices: Callable[[Document], Sequence[str]] | None = None
    """``choices(document)`` returns the texts of the choices, in the order of the document."""
    reordered: Callable[[Document, Sequence[int]], Document] | None = None
    """``reordered(document, order)`` returns the same document whose i-th choice is the choice ``order[i]`` of this
    one, with its right answer moved along."""
    tokenizer: Any = None
    """The tokenizer of the model, with ``bos_token_id`` and, for a chat model, ``apply_chat_template``, as those of
    transformers have them."""
    encode: Callable[[Request], tuple[Sequence[int], Sequence[int]]] | None = None
    """``encode(request)`` returns the token ids that are sent for a request: those of the prompt, and those of the
    continuation (empty where there is none). It raises an error for what does not fit, or cuts it with a warning."""
    cut: Callable[[Sequence[Request], Sequence[str]], Sequence[str]] | None = None
    """``cut(requests, generated)`` returns the responses that scoring receives where a model generates these texts for
    these requests of one batch."""
    tally: Callable[[Sequence[Document], Sequence[Any]], Tally] | None = None
    """``tally(documents, responses)`` runs the whole task: ``responses[i]`` is the list of responses to the requests of
    ``documents[i]``, or the error that the model raises for it. It may raise that error."""
    source: Any = None
    """The object behind the callables."""

    @classmethod
    def of(cls, function: Callable[[Document, Callable[..., Response]], Any], **fields: Any) -> Task:
        """The record of a function that evaluates one document: ``function(document, model)`` returns its mark.

        It calls ``model(prompt, stops=(), max_tokens=None, continuation=None)`` for each response that it needs: the
        prompt is a text or a list of messages, and the response is a text, or ``(logprob, is_greedy)`` where a
        continuation is given. ``fields`` are others of this class.

        >>> def addition(document, model):
        ...     return model(f"{document['question']} =", stops=["."]).strip() == document["answer"]
        >>> task = Task.of(addition, gold=lambda document: document["answer"])
        >>> task.requests([{"question": "2 + 3", "answer": "5"}])[0][0].prompt
        '2 + 3 ='
        >>> task.score({"question": "2 + 3", "answer": "5"}, [" 5"])
        True

        Raises:
            TypeError: where ``function`` cannot be called.
        """
        if not callable(function):
            raise TypeError(f"{function!r} is not a function; expected function(document, model)")

        def requests(documents: Sequence[Document]) -> list[list[Request]]:
            models = [_Model(()) for _ in documents]
            for document, model in zip(documents, models, strict=True):
                called(function, document, model)
            return [model.requests for model in models]

        def score(document: Document, responses: Sequence[Response]) -> Any:
            return called(function, document, _Model(responses))

        return cls(**{"requests": requests, "score": score, "source": function, **fields})

    def contents(self) -> dict[str, Any]:
        """Return what must not change in a task that is only copied."""
        return dict(getattr(self.source, "__dict__", {}))


class _Model:
    """A model that notes what it is asked, and gives some responses in turn; then empty ones."""

    def __init__(self, responses: Sequence[Response]) -> None:
        self._responses, self.requests = iter(responses), list[Request]()

    def __call__(
        self,
        prompt: str | Sequence[Message],
        *,
        stops: Sequence[str] = (),
        max_tokens: int | None = None,
        continuation: str | None = None,
    ) -> Response:
        text, messages = (prompt, ()) if isinstance(prompt, str) else ("", prompt)
        stops = (stops,) if isinstance(stops, str) else tuple(stops)
        self.requests.append(
            Request(prompt=text, messages=messages, continuation=continuation, stops=stops, max_tokens=max_tokens)
        )
        return next(self._responses, "" if continuation is None else (-1.0, False))
