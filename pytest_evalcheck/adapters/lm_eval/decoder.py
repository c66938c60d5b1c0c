"""lm_eval: ``generate_until`` of an `HFLM`, or of a subclass of it around a model of another library."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.kinds.common.convention import Convention
from pytest_evalcheck.kinds.decoder.log_probabilities import TextScore
from pytest_evalcheck.kinds.decoder.record import Decoder

CLASSES = ("lm_eval.models.huggingface.HFLM",)

_ONE_EACH = '"A list of generated continuation strings, one per request." (LM.generate_until)'
_UNTIL = '"until (str | list[str]): Stop sequence(s) for generation." (normalize_gen_kwargs)'
_TOKENS = (
    '"max_gen_toks | max_new_tokens | max_tokens | max_completion_tokens: Maximum tokens to generate" '
    "(normalize_gen_kwargs)"
)
_GREEDY = (
    '"When temperature is 0.0 and `do_sample` is not specified, `do_sample` is set to False." (normalize_gen_kwargs)'
)


def record(made: Any) -> Decoder:
    """The record of an `HFLM`; each batch size is that of a copy."""

    def sized_copy(rows: int) -> Any:
        sized = copy.copy(made)
        sized.batch_size_per_gpu = rows
        return sized

    return decoder(sized_copy)


def decoder(make: Callable[[int], Any], *, suppressed: Sequence[int] = (), **fields: Any) -> Decoder:
    """The record of ``make(batch_size)``, a model of lm_eval around one that another adapter knows.

    Requests are texts, so every id needs a text of its own, which is tokenized as this id everywhere. Logits without a
    cache are those of the inner model.

    Args:
        make: a function of a number of rows.
        suppressed: ids that must not be generated: those that end a generation whatever a request says.
        fields: of `Decoder`, in addition to or instead of what is known of the model.
    """
    from pytest_evalcheck.adapters import record as record_of

    made = make(1)
    model = made.model
    inner = record_of("decoder", model)

    def in_float32() -> Decoder:
        single = copy.deepcopy(model).float()

        def make_single(rows: int) -> Any:
            lm = copy.copy(make(rows))
            lm._model = single
            return lm

        return decoder(make_single, suppressed=suppressed, **fields)

    return Decoder(
        model,
        make_cache=make,
        full=inner.full or (lambda ids, mask, positions: inner.step(ids, None, mask, positions)),
        generate=_Requests(tuple(suppressed)),
        operations={"reset": lambda _lm: None},
        suppressed=tuple(suppressed),
        tensors=lambda _lm: [],  # a cache lives as long as a batch, inside generate_until
        text_scores=_text_scores(make, made),
        in_float32=in_float32 if hasattr(made, "_model") else None,
        **{"conventions": _conventions(tuple(suppressed)), **fields},
    )


@dataclass(frozen=True)
class _Requests:
    suppressed: tuple[int, ...]
    worded: Callable[[dict[str, Any]], dict[str, Any]] = dict
    """From the arguments of a generation to others that mean the same."""
    alone: bool = False
    """True if every request is a call of its own."""

    def __call__(self, prompts: list[list[int]], lm: Any, max_new_tokens: int, stop: tuple[int, ...]) -> Any:
        from lm_eval.api.instance import Instance

        arguments = {
            "until": [lm.tok_decode([token], skip_special_tokens=False) for token in stop],
            "max_gen_toks": max_new_tokens,
            "do_sample": False,
        }
        if self.suppressed:
            arguments["suppress_tokens"] = list(self.suppressed)
        requests = [
            called(Instance, "generate_until", {}, (_text(lm, prompt), self.worded(arguments)), index)
            for index, prompt in enumerate(prompts)
        ]
        calls = [[request] for request in requests] if self.alone else [requests]
        texts = [text for call in calls for text in called(lm.generate_until, call, disable_tqdm=True)]
        return [lm.tok_encode(text) for text in texts]


def _text_scores(make: Callable[[int], Any], made: Any) -> dict[str, TextScore]:
    """The log-probability of a continuation, in batches of one and of three, and of a whole text after a prefix.

    A whole text has no score where the model has no prefix: a subclass may set up less than an `HFLM` does.
    """
    scores = {
        "loglikelihood": TextScore(score=_Likelihoods(make, 1)),
        "loglikelihood in batches": TextScore(score=_Likelihoods(make, 3)),
        "loglikelihood without the cache of logits": TextScore(score=_Likelihoods(make, 3, logits_cache=False)),
    }
    if hasattr(made, "prefix_token_id"):
        rolling, prefix = _Likelihoods(make, 3, "loglikelihood_rolling"), (int(made.prefix_token_id),)
        scores["loglikelihood_rolling"] = TextScore(score=rolling, prefix=prefix, whole=True)
    return scores


@dataclass(frozen=True)
class _Likelihoods:
    make: Callable[[int], Any]
    batch_size: int
    method: str = "loglikelihood"
    logits_cache: bool = True
    """True if requests with a common context share a forward."""

    def __call__(self, contexts: list[list[int]], continuations: list[list[int]]) -> Any:
        from lm_eval.api.instance import Instance

        lm = self.make(self.batch_size)
        if not self.logits_cache:
            lm = copy.copy(lm)
            lm.logits_cache = False
        whole = self.method == "loglikelihood_rolling"
        requests = [
            called(
                Instance, self.method, {}, tuple(_text(lm, row) for row in ((after,) if whole else (before, after))), i
            )
            for i, (before, after) in enumerate(zip(contexts, continuations, strict=True))
        ]
        return called(getattr(lm, self.method), requests, disable_tqdm=True)


def _conventions(suppressed: tuple[int, ...]) -> dict[str, Convention]:
    """One request at a time, and other words for the arguments of a generation."""

    def single_stop(arguments: dict[str, Any]) -> dict[str, Any]:
        stops = arguments["until"]
        return {**arguments, "until": stops[0] if len(stops) == 1 else stops}

    def renamed(arguments: dict[str, Any], name: str) -> dict[str, Any]:
        return {name if key == "max_gen_toks" else key: each for key, each in arguments.items()}

    def temperature(arguments: dict[str, Any]) -> dict[str, Any]:
        return {**{key: each for key, each in arguments.items() if key != "do_sample"}, "temperature": 0.0}

    ways = {
        "one request at a time": Convention(_ONE_EACH, generate=_Requests(suppressed, alone=True)),
        "one stop sequence as a string": Convention(_UNTIL, generate=_Requests(suppressed, single_stop)),
        "a temperature of 0": Convention(_GREEDY, generate=_Requests(suppressed, temperature)),
    }
    for name in ("max_new_tokens", "max_tokens", "max_completion_tokens"):
        ways[name] = Convention(_TOKENS, generate=_Requests(suppressed, partial(renamed, name=name)))
    return ways


def _text(lm: Any, prompt: list[int]) -> str:
    text = str(lm.tok_decode(prompt, skip_special_tokens=False))
    if lm.tok_encode(text) != prompt:
        raise ValueError(f"the ids {prompt} have no text of their own: {text!r} is read as {lm.tok_encode(text)}")
    return text
