"""The text and the tokens that a model of inspect_ai's provider ``hf`` is given for the messages of a task."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from pytest_evalcheck.adapters.inspect_ai.task import here, record
from pytest_evalcheck.kinds.task.record import Request, Task


class _Sent(Exception):
    """Ends a call when what would be generated is known."""


def with_model(task: Any, model: Any, **fields: Any) -> Task:
    """The record of a task that a model is asked, whose chat template and tokens are looked at as well.

    Args:
        task: a task of inspect_ai.
        model: ``get_model("hf/local", model_path=...)``; nothing is generated.
        fields: of `Task`, added to these or instead of them.
    """
    plain = record(task)
    asked: Any = plain.requests

    def requests(samples: Sequence[Any]) -> list[list[Request]]:
        return [[replace(each, prompt=_given(model.api, each).input) for each in own] for own in asked(samples)]

    def encode(request: Request) -> tuple[list[int], list[int]]:
        return _given(model.api, request).tokenizer([request.prompt])["input_ids"][0].tolist(), []

    known = {"requests": requests, "tokenizer": model.api.tokenizer, "encode": encode, "other_runs": {}}
    return Task(**{**vars(plain), **known, **fields})


def _given(api: Any, request: Request) -> Any:
    """Return what the provider puts into its queue for a request: the text, and the tokenizer with its options."""
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser, GenerateConfig
    from inspect_ai.model._providers import hf

    kinds: dict[str, Any] = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}
    messages = [kinds[each["role"]](content=each["content"]) for each in request.messages]
    given: list[Any] = []

    async def noted(wanted: Any) -> Any:
        given.append(wanted)
        raise _Sent

    with patch.object(hf, "batched_generate", noted), suppress(_Sent):
        here(lambda: api.generate(messages, [], "none", GenerateConfig(max_tokens=request.max_tokens)))
    return given[0]
