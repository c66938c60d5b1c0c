"""Zamba2: two tokens at once after a cached prompt, beside a forward of all."""

import sys

import torch
from transformers import DynamicCache, Zamba2Config, Zamba2ForCausalLM

torch.manual_seed(0)
sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
sizes |= {"mamba_d_state": 8, "mamba_headdim": 16, "n_mamba_heads": 4, "mamba_ngroups": 1, "chunk_size": 16}
config = Zamba2Config(vocab_size=40, layers_block_type=["mamba", "hybrid"], use_mem_rope=True, **sizes)
model = Zamba2ForCausalLM(config).eval()
with torch.no_grad():
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.copy_(torch.randn_like(weight) / weight.shape[-1] ** 0.5)
ids = torch.randint(4, 40, (1, 6))
with torch.no_grad():
    whole = model(ids, use_cache=False).logits[:, -1]
    cache = DynamicCache(config=model.config)
    model(ids[:, :4], past_key_values=cache, use_cache=True)
    try:
        chunk = model(ids[:, 4:], past_key_values=cache, use_cache=True).logits[:, -1]
    except RuntimeError as error:
        print(error)
        sys.exit(1)
away = (whole - chunk).abs().max().item()
print("two tokens after a prompt are away from a forward of all by", away)
sys.exit(int(away > 1e-3))
