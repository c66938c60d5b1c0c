"""Servers that speak the protocol of OpenAI, as engines: ``/v1/completions`` and ``/v1/chat/completions``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pytest_evalcheck.adapters.openai_api.client import Client, EngineError
from pytest_evalcheck.errors import nearest
from pytest_evalcheck.kinds.engine.record import PARAMETERS, Completion, Engine, Messages, Parameters, Prompt

CLASSES = ("pytest_evalcheck.adapters.openai_api.engine.Endpoint",)
_ID = "token_id:"


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A server that speaks the protocol of OpenAI, such as ``vllm serve``. Only ``url`` is required.

    A server on another machine needs ``remote=True``. A key is the name of an environment variable; the key itself is
    never shown or stored.

    Raises:
        ValueError: where the address or the key is none.
    """

    url: str
    """The address with its version, such as ``http://127.0.0.1:8000/v1``."""
    model: str = ""
    """The name of the model; by default the only one that the server has."""
    listed: bool = True
    """True if ``/models`` lists the model; False for a server that loads any model by its name."""
    key: str = ""
    """The name of the environment variable that holds the key."""
    timeout: float = 60.0
    """Seconds that one request may take."""
    remote: bool = False
    """True if the server may be on another machine."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields of every request, such as ``{"return_tokens_as_token_ids": True}`` for the ids of tokens from vLLM."""
    supports: tuple[str, ...] = tuple(PARAMETERS)
    """The sampling parameters that it supports, see `Engine`."""
    batches: bool = True
    """True if one request may have several prompts; otherwise each is a request of its own, all at once."""
    chats_only: bool = False
    """True if there are no ``/completions``: a prompt is then the message of a user."""
    evict: str = ""
    """The path, from the root of the server, that empties the prefix cache: ``/reset_prefix_cache`` of vLLM."""
    served_by: str = ""
    """The program and its release, for ``diff``."""
    template: Callable[[Messages], Prompt] | None = None
    context: int | None = None
    empty: bool = True
    keeps_stop: bool = False

    def __post_init__(self) -> None:
        self.client()

    def client(self, *, root: bool = False) -> Client:
        """A client of the server; with ``root`` one of its address without the version."""
        url = self.url.rstrip("/")
        return Client(url.rpartition("/v")[0] if root else url, self.key, self.timeout, self.remote)

    def name(self) -> str:
        """The name of the model, which the server has.

        Raises:
            EngineError: where it is not there, or has other models.
        """
        return self.model if self.model and not self.listed else _name(self.client(), self.model, os.getpid())

    def complete(self, prompts: Sequence[Prompt], parameters: Parameters) -> list[list[Completion]]:
        """The answers of prompts, see `Engine`."""
        if len(prompts) > 1 and not (self.batches and not self.chats_only):
            with ThreadPoolExecutor(len(prompts)) as pool:
                return [own for (own,) in pool.map(lambda prompt: self.complete([prompt], parameters), prompts)]
        path, body = self.request(prompts[0] if len(prompts) == 1 else list(prompts), parameters)
        choices, tokens = self.choices(self.client().post(path, body), parameters)
        count = parameters.get("n", 1)
        if len(prompts) > 1 and len(choices) != count * len(prompts):
            raise EngineError(f"{self.url} gives {len(choices)} choices for {len(prompts)} prompts with n={count}")
        each, tokens = (count, None) if len(prompts) > 1 else (len(choices), tokens)  # usage is that of all prompts
        return [[self.read(c, parameters, tokens) for c in choices[i * each :][:each]] for i in range(len(prompts))]

    def stream(self, prompt: Prompt, parameters: Parameters) -> Iterator[Completion]:
        """The pieces of an answer, see `Engine`."""
        path, body = self.request(prompt, parameters)
        for event in self.client().events(path, {**body, "stream": True}):
            choices, _ = self.choices(event, parameters, least=0)
            yield from (self.read(choice, parameters) for choice in choices)

    def chat(self, messages: Messages, parameters: Parameters) -> Completion:
        """The answer to a conversation, see `Engine`."""
        body = self.body(parameters, {"messages": [dict(message) for message in messages]}, chat=True)
        choices, tokens = self.choices(self.client().post("/chat/completions", body), parameters)
        return self.read(choices[0], parameters, tokens)

    def request(self, prompt: Any, parameters: Parameters) -> tuple[str, dict[str, Any]]:
        """The path and the body of a request."""
        if not self.chats_only:
            return "/completions", self.body(parameters, {"prompt": prompt})
        messages = [{"role": "user", "content": prompt}]
        return "/chat/completions", self.body(parameters, {"messages": messages}, chat=True)

    def body(self, parameters: Parameters, what: Mapping[str, Any], *, chat: bool = False) -> dict[str, Any]:
        """The body of a request. The two paths ask for log-probabilities in two ways."""
        given = dict(parameters)
        if given.get("logprobs"):
            given |= {"logprobs": True, "top_logprobs": 1} if chat else {"logprobs": 1}
        return {"model": self.name(), **what, **given, **self.extra}

    def choices(self, answer: Any, parameters: Parameters, *, least: int = 1) -> tuple[list[Any], int | None]:
        """The choices of an answer in their order, and the number of tokens of its prompt.

        Raises:
            EngineError: where the answer has none, or is of another model.
        """
        del parameters
        found = answer.get("choices") if isinstance(answer, Mapping) else None
        if not isinstance(found, list) or len(found) < least or not all(isinstance(one, Mapping) for one in found):
            raise EngineError(f"{self.url} answers with JSON without choices: {str(answer)[:120]}")
        model = str(answer.get("model", ""))
        if not model.startswith(self.name()):
            raise EngineError(f"{self.url} answers as the model {model!r}; expected {self.name()!r}")
        usage = answer.get("usage") or {}
        return sorted(found, key=lambda choice: int(choice.get("index", 0))), usage.get("prompt_tokens")

    def read(self, choice: Mapping[str, Any], parameters: Parameters, prompt_tokens: int | None = None) -> Completion:
        """One choice of an answer, or of an event.

        Raises:
            EngineError: where it has no text, or no log-probabilities though they are asked for.
        """
        message = choice.get("message") or choice.get("delta")
        text = choice.get("text") if message is None else message.get("content") or ""
        if not isinstance(text, str):
            raise EngineError(f"{self.url} answers with a choice without a text: {str(choice)[:120]}")
        tokens, numbers = _tokens(choice.get("logprobs"))
        finish = choice.get("finish_reason") or ""
        if tokens is None and parameters.get("logprobs"):
            if text:
                problem = "gives no log-probabilities; name what it supports: supports=(...) without 'logprobs'"
                raise EngineError(f"{self.url} {problem}")
            tokens, numbers = [], []  # an event that only ends an answer
        return Completion(text, tokens=tokens, logprobs=numbers, finish=finish, prompt_tokens=prompt_tokens)

    def reset(self) -> None:
        """Empty the prefix cache."""
        self.client(root=True).touch("POST", self.evict)


def record(made: Endpoint) -> Engine:
    """The record of an `Endpoint`."""
    return Engine(
        made.complete,
        stream=made.stream,
        chat=made.chat,
        template=made.template,
        evict=made.reset if made.evict else None,
        supports=made.supports,
        concurrent=True,
        keeps_stop=made.keeps_stop,
        empty=made.empty,
        context=made.context,
        facts={"engine": made.served_by, "model": made.model},
        source=made,
    )


@cache
def _name(client: Client, wanted: str, process: int) -> str:
    del process  # a fork asks again: its server may be another one
    answer = client.get("/models")
    listed = answer.get("data") if isinstance(answer, Mapping) else None
    names = [str(each.get("id")) for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    if not names:
        raise EngineError(f"{client.url}/models lists no models: {str(answer)[:120]}")
    if wanted and wanted not in names:
        expected = f"model= one of {', '.join(names[:5])}{nearest(wanted, names)}"
        raise EngineError(f"{client.url} has no model {wanted!r}; expected {expected}")
    if not wanted and len(names) > 1:
        raise EngineError(f"{client.url} has {len(names)} models; expected model= one of {', '.join(names[:5])}")
    return wanted or names[0]


def _tokens(found: Any) -> tuple[list[Any] | None, list[float] | None]:
    """The tokens and their log-probabilities in the form of either path; None where there are none."""
    if not isinstance(found, Mapping):
        return None, None
    if isinstance(content := found.get("content"), list):
        pairs = [(one["token"], one["logprob"]) for one in content]
    elif isinstance(found.get("tokens"), list) and isinstance(found.get("token_logprobs"), list):
        pairs = list(zip(found["tokens"], found["token_logprobs"], strict=True))
    else:
        return None, None
    ids = [int(token[len(_ID) :]) if str(token).startswith(_ID) else token for token, _ in pairs]
    return ids, [float(number) for _, number in pairs]
