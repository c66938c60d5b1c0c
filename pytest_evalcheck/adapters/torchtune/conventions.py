"""torchtune: other documented ways to call a `TransformerDecoder` and ``generate``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pytest_evalcheck.kinds.common.convention import Convention

_NO_MASK = '"If no mask is specified, a causal mask is used by default." (mask of the forward)'
_NO_POSITIONS = '"If none, assume the index of the token is its position id." (input_pos of MultiHeadAttention)'
_DISABLED = (
    '"All forward passes using the model within this context manager will not use KV-caches." (disable_kv_cache)'
)
_REQUIRED = '"This parameter is required during inference if caches have been setup." ({} of the forward)'
_ONE_DIMENSION = (
    '"For a single-batch prompt, or a batch of prompts with identical lengths, this will be '
    '`torch.arange(prompt_length)`." (input_pos of the forward)'
)
_ONE_PROMPT = '"with shape either [seq_length] or [bsz x seq_length]" (prompt of generate)'
_LOCAL = (
    '"This context manager temporarily enables KV-cacheing on a given model, which does not already have KV-caches '
    'setup." (local_kv_cache)'
)
_UNCACHED = '"Deletes KV caches from all attention layers in a model" (delete_kv_caches)'


def step_conventions(known: Any) -> dict[str, Convention]:
    """Ways to call the forward of a model: what may be left out without caches, and positions of one dimension."""

    def called(ids: Any, **options: Any) -> Any:
        import torch

        with torch.no_grad():
            return known.model(ids, **options)

    def unmasked(ids: Any, _mask: Any, positions: Any) -> Any:
        with disabled(known, len(ids)):
            return called(ids, input_pos=positions)

    def uncached(ids: Any, _mask: Any, _positions: Any) -> Any:
        with without_caches(known.model):
            return called(ids)

    def masked(ids: Any, mask: Any, _positions: Any) -> Any:
        with disabled(known, len(ids)):
            return called(ids, mask=known.visible(mask, ids.shape[1], ids.shape[1]))

    def one_dimension(ids: Any, cache: Any, mask: Any, positions: Any) -> Any:
        return known.step(ids, cache, mask, positions[0])

    return {
        "no mask with caches": Convention(_REQUIRED.format("mask"), supported=False),
        "no positions with caches": Convention(_REQUIRED.format("input_pos"), supported=False),
        "no mask, caches disabled": Convention(f"{_NO_MASK} {_DISABLED}", full=unmasked, sides=()),
        "no positions, caches disabled": Convention(f"{_NO_POSITIONS} {_DISABLED}", full=masked, sides=()),
        "neither mask nor positions, no caches": Convention(_NO_MASK, full=uncached, sides=()),
        "positions of one dimension": Convention(_ONE_DIMENSION, step=one_dimension, sides=()),
    }


def generation_conventions(known: Any) -> dict[str, Convention]:
    """Ways to call ``generate`` of a model with caches: also with those of one generation."""

    def locally(prompts: list[list[int]], _cache: Any, count: int, stop: tuple[int, ...]) -> Any:
        with without_caches(known.model):
            return known.generate_locally(prompts, len(prompts), count, stop)

    return {
        "generate under local_kv_cache": Convention(_LOCAL, generate=locally),
        **local_generation_conventions(known),
    }


def local_generation_conventions(known: Any) -> dict[str, Convention]:
    """Ways to call ``generate`` of a model that has no caches in between: without any, and with prompts one by one."""

    def uncached(prompts: list[list[int]], _cache: Any, count: int, stop: tuple[int, ...]) -> Any:
        with without_caches(known.model):
            return known.filled(prompts, len(prompts), count, stop)

    def generated_one_by_one(prompts: list[list[int]], _cache: Any, count: int, stop: tuple[int, ...]) -> Any:
        with without_caches(known.model):
            return [known.generate_locally([prompt], 1, count, stop, flat=True)[0] for prompt in prompts]

    return {
        "generate without caches": Convention(_UNCACHED, generate=uncached),
        "generate from prompts of one dimension": Convention(_ONE_PROMPT, generate=generated_one_by_one),
    }


@contextmanager
def disabled(known: Any, rows: int) -> Iterator[None]:
    """With caches for so many rows, which are set up and disabled; afterwards those are there that were before."""
    from torchtune.modules.common_utils import disable_kv_cache

    with without_caches(known.model), disable_kv_cache(known.set_up(rows)):
        yield


@contextmanager
def without_caches(model: Any) -> Iterator[None]:
    """Hide the caches; afterwards they are there as before."""
    from torchtune.modules.common_utils import delete_kv_caches

    kept: Sequence[Any] = [
        (module, module.kv_cache, module.cache_enabled)
        for module in model.modules()
        if getattr(module, "kv_cache", None) is not None
    ]
    length = getattr(model, "decoder_max_cache_seq_len", None)
    if model.caches_are_setup():
        delete_kv_caches(model)
    try:
        yield
    finally:
        if model.caches_are_setup():
            delete_kv_caches(model)
        for module, cache, enabled in kept:
            module.kv_cache, module.cache_enabled = cache, enabled
        model.decoder_max_cache_seq_len = length
