"""Nemotron-H: two tokens at once after a cached prompt, beside a forward of all."""

import sys

import torch
from transformers import DynamicCache, NemotronHConfig, NemotronHForCausalLM

torch.manual_seed(0)
sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 64}
sizes |= {"ssm_state_size": 8, "mamba_head_dim": 16, "mamba_num_heads": 4, "n_groups": 1, "chunk_size": 16}
config = NemotronHConfig(vocab_size=40, layers_block_type=["mamba", "attention", "mamba"], **sizes)
model = NemotronHForCausalLM(config).eval()
with torch.no_grad():
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.copy_(torch.randn_like(weight) / weight.shape[-1] ** 0.5)
ids = torch.randint(4, 40, (1, 6))
with torch.no_grad():
    whole = model(ids, use_cache=False).logits[:, -1]
    cache = DynamicCache(config=model.config)
    model(ids[:, :4], past_key_values=cache, use_cache=True)
    chunk = model(ids[:, 4:], past_key_values=cache, use_cache=True).logits[:, -1]
away = (whole - chunk).abs().max().item()
print("two tokens after a prompt are away from a forward of all by", away)
sys.exit(int(away > 1e-3))
