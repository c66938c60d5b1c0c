"""lm_eval: ``generate_until`` of an `HFLM`, or of a subclass of it around a model of another library."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evalcheck.kinds.decoder.record import Decoder


def record(made: Any) -> Decoder:
    """The record of an `HFLM`; each batch size is that of a copy."""

    def of_size(rows: int) -> Any:
        sized = copy.copy(made)
        sized.batch_size_per_gpu = rows
        return sized

    return decoder(of_size)


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
        in_float32=in_float32 if hasattr(made, "_model") else None,
        **fields,
    )


@dataclass(frozen=True)
class _Requests:
    suppressed: tuple[int, ...]

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
            Instance("generate_until", {}, (_text(lm, prompt), dict(arguments)), index)
            for index, prompt in enumerate(prompts)
        ]
        return [lm.tok_encode(text) for text in lm.generate_until(requests, disable_tqdm=True)]


def _text(lm: Any, prompt: list[int]) -> str:
    text = str(lm.tok_decode(prompt, skip_special_tokens=False))
    if lm.tok_encode(text) != prompt:
        raise ValueError(f"the ids {prompt} have no text of their own: {text!r} is read as {lm.tok_encode(text)}")
    return text
