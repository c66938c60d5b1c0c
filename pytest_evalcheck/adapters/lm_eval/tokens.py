"""The tokens that an `HFLM` sends for a request, and what it makes of a generation; a model with given responses."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from pytest_evalcheck.kinds.task.record import Request


class _Sent(Exception):
    """Ends a run when the tokens of its first batch are known."""


def encode(lm: Any) -> Callable[[Request], tuple[list[int], list[int]]]:
    """Return the function from a request to the token ids that the model is given: of the prompt, and behind it."""

    def encoded(request: Request) -> tuple[list[int], list[int]]:
        if request.continuation == "":  # of an empty one no likelihood can be asked for
            return list(lm.tok_encode(request.prompt)), []
        seen: dict[str, Any] = {}

        def called(inputs: Any, *_: Any, **__: Any) -> Any:
            seen["ids"] = inputs[0].tolist()
            raise _Sent

        def generated(context: Any, *_: Any, **__: Any) -> Any:
            return called(context)

        def scored(requests: Any, *args: Any, **kwargs: Any) -> Any:
            seen["continuation"] = list(requests[0][2])
            return type(lm)._loglikelihood_tokens(model, requests, *args, **kwargs)

        model = copy.copy(lm)
        model._model_call, model._model_generate, model._loglikelihood_tokens = called, generated, scored
        try:
            method = "generate_until" if request.continuation is None else "loglikelihood"
            getattr(model, method)([_instance(request, 0)], disable_tqdm=True)
        except _Sent:
            pass
        ids, continuation = seen.get("ids", []), seen.get("continuation", [])
        if not continuation:
            return ids, []
        whole = [*ids, continuation[-1]]  # the last token is asked for, and not sent
        behind = min(len(continuation), len(whole))
        return whole[:-behind], whole[-behind:]

    return encoded


def cut(lm: Any) -> Callable[[Sequence[Request], Sequence[str]], list[str]]:
    """Return the function from requests and what is generated for each to the responses that are scored."""

    def responses(requests: Sequence[Request], generated: Sequence[str]) -> list[str]:
        by_prompt = {request.prompt: text for request, text in zip(requests, generated, strict=True)}

        def batch_encode(strings: Any, *args: Any, **kwargs: Any) -> Any:
            pending[:] = list(strings)
            return type(lm).tok_batch_encode(model, strings, *args, **kwargs)

        def generate(context: Any, *_: Any, **__: Any) -> Any:
            import torch

            rows = [lm.tok_encode(by_prompt[text], add_special_tokens=False) for text in pending]
            longest, end = max(map(len, rows)), lm.eot_token_id
            padded = torch.tensor([[*row, *[end] * (longest - len(row))] for row in rows], dtype=context.dtype)
            return torch.cat([context, padded.reshape(len(rows), longest)], dim=1)

        pending: list[str] = []
        model = copy.copy(lm)
        model.tok_batch_encode, model._model_generate = batch_encode, generate
        found: list[str] = model.generate_until(
            [_instance(each, i) for i, each in enumerate(requests)], disable_tqdm=True
        )
        return found

    return responses


def _instance(request: Request, place: int) -> Any:
    if request.continuation is not None:
        return Instance("loglikelihood", {}, (request.prompt, request.continuation), place)
    options: dict[str, Any] = {"until": list(request.stops), "do_sample": False}
    if request.max_tokens is not None:
        options["max_gen_toks"] = request.max_tokens
    return Instance("generate_until", {}, (request.prompt, options), place)


class Answering(LM):  # type: ignore[misc]
    """A model with given responses to each document, one for each of its requests, or an error that it raises."""

    MULTIMODAL = True  # whatever a request holds beside its text

    def __init__(self, responses: Sequence[Any]) -> None:
        super().__init__()
        self._responses = responses

    def _response(self, request: Any) -> Any:
        own = self._responses[request.doc_id]
        if isinstance(own, BaseException):
            raise own
        return own[min(request.idx, len(own) - 1)]

    def generate_until(self, requests: Any, **_: Any) -> list[Any]:
        return [self._response(request) for request in requests]

    loglikelihood = loglikelihood_rolling = generate_until
