"""transformers: a causal language model with one of its caches."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pytest_evalcheck.adapters.transformers.decoder_caches import (
    OPERATIONS,
    Held,
    capacity,
    maker,
    of_fixed_rows,
    tensors,
)
from pytest_evalcheck.kinds.decoder.record import Decoder

_CACHES = ("past_key_values", "cache_params", "past_buckets_states", "state")
"""What forwards call their cache; outputs call it the same."""

# Compiling sets a variable of the environment, and a simulated device has no kernels.
GREEDY = {"do_sample": False, "num_beams": 1, "pad_token_id": 0, "disable_compile": True}
"""How ``generate`` is called, whatever it is asked for."""


def record(made: Any) -> Decoder:
    """The record of a model, with a dynamic cache, or of a `Decoder` that says which cache, and not how to decode."""
    if isinstance(made, Decoder):
        return _completed(made)
    return decoder(made)


def decoder(model: Any, cache: str = "dynamic", *, length: int = 64, generates: bool = True, **fields: Any) -> Decoder:
    """A causal language model with the cache of this name.

    Args:
        model: a `PreTrainedModel` that gives logits.
        cache: one of `transformers_decoder_caches.CACHES`; ``held`` is what the model itself makes, for architectures
            that take no cache of another class.
        length: how many tokens a static cache holds.
        generates: whether its ``generate`` is tried, which takes as long as all else.
        fields: of `Decoder`, beside or instead of what is known of the model.

    Raises:
        ValueError: for a name that no cache has.
    """
    return _completed(Decoder(model, **{"make_cache": maker(model, cache, length), **fields}), generates)


def _completed(made: Decoder, generates: bool = True) -> Decoder:
    known, example = _Model(made.model), made.make_cache(1)
    own = known.generate if generates and made.model.can_generate() else None
    return replace(
        made,
        step=known.step,
        generate=made.generate or own,
        operations=made.operations or OPERATIONS,
        capacity=made.capacity or capacity(example),
        refuses=made.refuses or (("smaller batches",) if of_fixed_rows(example) else ()),
        tensors=made.tensors or tensors,
        in_float32=made.in_float32 or (lambda: _in_float32(made, generates)),
    )


def _in_float32(made: Decoder, generates: bool) -> Decoder:
    return _completed(replace(made, model=copy.deepcopy(made.model).float()), generates)


@dataclass(frozen=True)
class _Model:
    model: Any

    @cached_property
    def taken(self) -> Any:
        """The parameters of its forward, which are looked up at every step."""
        return inspect.signature(self.model.forward).parameters

    def step(self, ids: Any, cache: Any, mask: Any, positions: Any) -> Any:
        """The logits of new ids, called as the model's own ``generate`` calls it."""
        import torch

        name = next((name for name in _CACHES if name in self.taken), "past_key_values")
        given: dict[str, Any] = {"use_cache": cache is not None}
        if "position_ids" in self.taken:
            given["position_ids"] = positions
        if name == "past_key_values" or mask.shape[1] == ids.shape[1]:  # a state has no places that a mask could name
            given["attention_mask"] = mask
        if cache is not None:
            given[name] = cache.value if isinstance(cache, Held) else cache
        with torch.no_grad():
            outputs = self.model(input_ids=ids, **given)
        if isinstance(cache, Held):
            cache.value = outputs[name]
        return outputs["logits"]

    def generate(self, prompts: list[list[int]], cache: Any, max_new_tokens: int, stop: tuple[int, ...]) -> Any:
        """What its own ``generate`` gives, greedily, of prompts that are padded on the left."""
        name = "cache_params" if "cache_params" in self.taken else "past_key_values"
        ids, mask = _padded(prompts, self.model.device)
        found = self.model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=max_new_tokens,
            eos_token_id=list(stop) or None,
            **GREEDY,
            **({} if isinstance(cache, Held) else {name: cache}),
        )
        return [until(row, stop) for row in found[:, ids.shape[1] :].tolist()]


def _padded(prompts: Sequence[Sequence[int]], device: Any) -> tuple[Any, Any]:
    """Ids and mask of prompts, padded on the left with 0."""
    import torch

    width = max(map(len, prompts), default=0)
    ids = [[0] * (width - len(prompt)) + list(prompt) for prompt in prompts]
    mask = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return tuple(
        torch.tensor(rows, dtype=torch.long, device=device).reshape(len(prompts), width) for rows in (ids, mask)
    )


def until(row: Sequence[int], stop: Sequence[int]) -> list[int]:
    """The tokens of a row up to its first stop token: what follows is padding, by the documentation of ``generate``."""
    ends = [place for place, token in enumerate(row) if token in stop]
    return list(row[: ends[0] + 1]) if ends else list(row)
