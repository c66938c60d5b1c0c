"""Decoders in configurations in which an earlier release was wrong (history/): weights in float32, long sources."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.adapters.transformers import encoder_decoder

VOCAB, END = 99, 2
PROMPTS = es.prompts(vocab=VOCAB, special=(0, 1, 2, 3))
SOURCES = replace(PROMPTS, name="sources", collate=lambda rows: [[*row, END] for row in rows])


def drawn(model: Any) -> Any:
    """The model with weights of about 1/sqrt(fan_in): those that a config draws make all logits nearly the same."""
    import torch

    numbers = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.copy_(torch.randn(weight.shape, generator=numbers) / weight.shape[-1] ** 0.5)
    return model.eval().requires_grad_(False)


@ec.decoder(inputs=PROMPTS, requires=("transformers>=5",))
def zamba2(device: Any) -> Any:
    """The least step as it is by default, and weights in float32; rows of one length need no mask."""
    import torch
    from transformers import DynamicCache, Zamba2Config, Zamba2ForCausalLM

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    sizes |= {"mamba_d_state": 8, "mamba_headdim": 16, "n_mamba_heads": 4, "mamba_ngroups": 1, "chunk_size": 16}
    config = Zamba2Config(vocab_size=VOCAB, layers_block_type=["mamba", "hybrid"], use_mem_rope=True, **sizes)
    model = drawn(Zamba2ForCausalLM(config)).to(device)

    def step(ids: Any, cache: Any, mask: Any, positions: Any) -> Any:
        del mask, positions
        with torch.no_grad():
            return model(ids, past_key_values=cache, use_cache=cache is not None).logits

    return ec.Decoder(model, make_cache=lambda _rows: DynamicCache(config=model.config), step=step, sides=())


@ec.decoder(inputs=SOURCES, requires=("transformers>=5",))
def t5gemma(device: Any) -> Any:
    """Sources that are longer than the window of its decoder."""
    from transformers import T5GemmaConfig, T5GemmaForConditionalGeneration
    from transformers.models.t5gemma.configuration_t5gemma import T5GemmaModuleConfig

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    sizes |= {"num_key_value_heads": 2, "head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 4}
    sizes |= {"vocab_size": VOCAB, "layer_types": ["sliding_attention", "full_attention"]}
    parts = {name: T5GemmaModuleConfig(**sizes) for name in ("encoder", "decoder")}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": END, "decoder_start_token_id": 1}
    model = T5GemmaForConditionalGeneration(T5GemmaConfig(**parts, vocab_size=VOCAB, **tokens))
    return encoder_decoder.by_generation(drawn(model.double()).to(device), end=END)
