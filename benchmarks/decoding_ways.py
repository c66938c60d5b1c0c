"""The ways of benchmarks/decoding.py: each takes batches of prompts and gives the new tokens of every row in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.fixes.caches import (
    ResizableStaticCache,
    TorchtuneDecoder,
    TransformersDecoder,
    decode,
    pad_batch,
    persistent_kv_cache,
    trim,
)

Batches = list[list[list[int]]]
Way = Callable[[Batches], list[list[int]]]
CAPACITY, NEW, NEEDED, CONTEXT = 8, 24, 120, 512
NO_CACHE = "no cache"
SIZES = {"layers": 6, "heads": 8, "kv_heads": 4, "dim": 256}


def models(library: str, vocabulary: int) -> Any:
    torch.manual_seed(0)
    if library == "torchtune":
        from torchtune.models.llama3 import llama3

        model: Any = llama3(
            vocab_size=vocabulary,
            num_layers=SIZES["layers"],
            num_heads=SIZES["heads"],
            num_kv_heads=SIZES["kv_heads"],
            embed_dim=SIZES["dim"],
            max_seq_len=CONTEXT,
            intermediate_dim=768,
        )
    else:
        import transformers

        transformers.logging.set_verbosity_error()
        config = transformers.LlamaConfig(
            vocab_size=vocabulary,
            num_hidden_layers=SIZES["layers"],
            num_attention_heads=SIZES["heads"],
            num_key_value_heads=SIZES["kv_heads"],
            hidden_size=SIZES["dim"],
            intermediate_size=768,
            max_position_embeddings=CONTEXT,
            eos_token_id=None,
            pad_token_id=0,
        )
        model = transformers.LlamaForCausalLM(config)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.08)
    return model.eval()


def full_batch_bytes(positions: int) -> int:
    """Return what one cache for a full batch of so many positions takes, in float32."""
    head = SIZES["dim"] // SIZES["heads"]
    return 2 * SIZES["layers"] * CAPACITY * SIZES["kv_heads"] * positions * head * 4


def padded(prompts: list[list[int]]) -> Tensor:
    width = max(map(len, prompts))
    return torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])


def cut(ids: Tensor, width: int, stops: Sequence[int]) -> list[list[int]]:
    """The new tokens of every row, up to its first stop."""
    rows = []
    for row in ids[:, width:].tolist():
        ends = [place for place, token in enumerate(row) if token in stops]
        rows.append(row[: ends[0] + 1] if ends else row)
    return rows


def torchtune_ways(model: Any, stops: Sequence[int]) -> dict[str, Way]:
    from torchtune.generation import generate
    from torchtune.modules.common_utils import local_kv_cache

    cpu, options = torch.device("cpu"), {"max_generated_tokens": NEW, "temperature": 0.0, "pad_id": 0}
    options["stop_tokens"] = list(stops) or None

    def ours(length: int) -> Way:
        def way(batches: Batches) -> list[list[int]]:
            with TorchtuneDecoder(model, capacity=CAPACITY, max_length=length) as decoder:
                return [row for batch in batches for row in decode(decoder, batch, NEW, stops)]

        return way

    def packed(batches: Batches) -> list[list[int]]:
        with TorchtuneDecoder(model, capacity=CAPACITY, max_length=CONTEXT) as decoder:
            return decode(decoder, [prompt for batch in batches for prompt in batch], NEW, stops)

    def kept(batches: Batches) -> list[list[int]]:
        rows = []
        with persistent_kv_cache(model, capacity=CAPACITY, max_seq_len=CONTEXT) as caches:
            for batch in batches:
                ids = padded(batch)
                caches.start_batch(len(batch))
                rows += cut(generate(model, ids, **options)[0], ids.shape[1], stops)
        return rows

    def local(length: int, fill: bool) -> Way:
        def way(batches: Batches) -> list[list[int]]:
            rows = []
            for batch in batches:
                ids = padded(batch)
                given = pad_batch(ids, CAPACITY, stops[0] if stops else 1) if fill else ids
                with local_kv_cache(
                    model, batch_size=len(given), device=cpu, dtype=torch.float32, decoder_max_seq_len=length
                ):
                    found, _ = generate(model, given, **options)
                rows += cut(trim(found, len(batch)), ids.shape[1], stops)
            return rows

        return way

    def without_cache(batches: Batches) -> list[list[int]]:
        rows = []
        for batch in batches:
            ids = padded(batch)
            rows += cut(generate(model, ids, **options)[0], ids.shape[1], stops)
        return rows

    return {
        "ours": ours(CONTEXT),
        "ours, packed into full batches": packed,
        "ours, with torchtune's generate": kept,
        "ours, no longer than needed": ours(NEEDED),
        "local_kv_cache and padding": local(CONTEXT, True),
        "local_kv_cache and padding, no longer than needed": local(NEEDED, True),
        "a fresh cache for every batch": local(CONTEXT, False),
        NO_CACHE: without_cache,
    }


def transformers_ways(model: Any, stops: Sequence[int]) -> dict[str, Way]:
    options = {"max_new_tokens": NEW, "do_sample": False, "pad_token_id": 0, "eos_token_id": list(stops) or None}

    def ours(batches: Batches) -> list[list[int]]:
        with TransformersDecoder(model, capacity=CAPACITY, max_length=NEEDED) as decoder:
            return [row for batch in batches for row in decode(decoder, batch, NEW, stops)]

    def packed(batches: Batches) -> list[list[int]]:
        with TransformersDecoder(model, capacity=CAPACITY, max_length=NEEDED) as decoder:
            return decode(decoder, [prompt for batch in batches for prompt in batch], NEW, stops)

    def generated(**more: Any) -> Way:
        def way(batches: Batches) -> list[list[int]]:
            rows = []
            for batch in batches:
                ids = padded(batch)
                mask = torch.tensor([[0] * (ids.shape[1] - len(row)) + [1] * len(row) for row in batch])
                rows += cut(model.generate(ids, attention_mask=mask, **options, **more), ids.shape[1], stops)
            return rows

        return way

    def kept(batches: Batches) -> list[list[int]]:
        cache = ResizableStaticCache(model.config, max_cache_len=NEEDED, max_batch_size=CAPACITY)
        rows = []
        for batch in batches:
            rows += generated(past_key_values=cache.start_batch(len(batch)))([batch])
        cache.release()
        return rows

    return {
        "ours": ours,
        "ours, packed into full batches": packed,
        "ours, with transformers' generate": kept,
        "generate, dynamic cache": generated(),
        "generate, static cache": generated(cache_implementation="static"),
        NO_CACHE: generated(use_cache=False),
    }
