"""The record that describes an engine: completions of prompts, as callables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import Any

from pytest_evalcheck.errors import nearest
from pytest_evalcheck.kinds.common.convention import Convention, require_conventions

Prompt = Any
"""A text, or a list of token ids."""
Messages = Sequence[Mapping[str, str]]
"""A conversation: ``[{"role": "user", "content": "..."}]``."""
Parameters = Mapping[str, Any]
"""Sampling parameters by name, some of `PARAMETERS`."""

PARAMETERS: Mapping[str, Any] = MappingProxyType(
    {
        "temperature": 0.5,
        "top_p": 0.5,
        "seed": 1,
        "n": 2,
        "stop": ["\n"],
        "logit_bias": {"1": -100.0},
        "frequency_penalty": 1.0,
        "presence_penalty": 1.0,
        "logprobs": True,
    }
)
"""The parameters that an engine may support beside ``max_tokens``, each with a value that matters."""
GREEDY: Parameters = MappingProxyType({"temperature": 0.0})


@dataclass(frozen=True)
class Completion:
    """One answer, or a piece of it where it is streamed."""

    text: str
    _: KW_ONLY
    tokens: Sequence[Any] | None = None
    """The new tokens: their ids, or texts where the engine gives no ids; None where it gives neither."""
    logprobs: Sequence[float] | None = None
    """The log-probability of each new token; None where the engine gives none."""
    finish: str = ""
    """``"stop"`` or ``"length"``; empty where it is not known."""
    prompt_tokens: int | None = None
    """Number of tokens of the prompt, where the engine tells."""


Complete = Callable[[Sequence[Prompt], Parameters], Iterable[Sequence[Completion]]]
"""``complete(prompts, parameters)`` submits prompts together. It returns the ``n`` answers of each, in their order."""


@dataclass(frozen=True)
class Engine:
    """Description of an engine, as callables. Only ``complete`` is required.

    A check that needs a field which is left out is not applicable, e.g. EC804 without ``stream``.
    """

    complete: Complete
    _: KW_ONLY
    stream: Callable[[Prompt, Parameters], Iterator[Completion]] | None = None
    """``stream(prompt, parameters)`` yields the pieces of one answer. Closing the iterator cancels the request."""
    chat: Callable[[Messages, Parameters], Completion] | None = None
    """``chat(messages, parameters)`` returns the answer to a conversation."""
    template: Callable[[Messages], Prompt] | None = None
    """``template(messages)`` returns the prompt that ``chat`` must send: the ids of the model's chat template."""
    evict: Callable[[], Any] | None = None
    """Function that empties the prefix cache."""
    supports: tuple[str, ...] = tuple(PARAMETERS)
    """The sampling parameters beside ``max_tokens`` that it supports, some of `PARAMETERS`. It must refuse others."""
    concurrent: bool = False
    """True if ``complete`` may be called from several threads at once."""
    keeps_stop: bool = False
    """True if a text ends with the stop string that ended it; else it ends before that."""
    empty: bool = True
    """True if an empty prompt has an answer; False if it is refused."""
    context: int | None = None
    """The most tokens of a prompt and its answer together. A longer prompt must be refused."""
    conventions: Mapping[str, Convention] = field(default_factory=dict)
    """Other documented ways to call it, by name: each must give the same answers."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts that may explain other numbers, such as the dtype and the release, for ``diff``."""
    source: Any = None
    """The object behind the callables."""

    def __post_init__(self) -> None:
        require_conventions(self)
        for name in ("complete", "stream", "chat", "template", "evict"):
            value = getattr(self, name)
            if not callable(value) and (value is not None or name == "complete"):
                raise TypeError(f"{name}={value!r}; expected a function")
        if isinstance(self.supports, str):
            raise TypeError(f"supports={self.supports!r}; expected a tuple, such as ({self.supports!r},)")
        for name in self.supports:
            if name not in PARAMETERS:
                expected = f"expected some of {', '.join(PARAMETERS)}{nearest(str(name), PARAMETERS)}"
                raise TypeError(f"supports has {name!r}; {expected}")
        if self.context is not None and (isinstance(self.context, bool) or not self.context > 1):
            raise TypeError(f"context={self.context!r}; expected a number of at least 2, or None")

    def contents(self) -> dict[str, Any]:
        """Return what must not change in an engine that is only copied."""
        return dict(getattr(self.source, "__dict__", {}))
