"""OlmoHybrid: two tokens at once after a cached prompt, beside a forward of all."""

import sys

import torch
from transformers import OlmoHybridConfig, OlmoHybridForCausalLM

torch.manual_seed(0)
sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4}
sizes |= {"intermediate_size": 64, "linear_num_key_heads": 2, "linear_num_value_heads": 2}
sizes |= {"linear_key_head_dim": 8, "linear_value_head_dim": 8, "pad_token_id": 0}
config = OlmoHybridConfig(vocab_size=40, layer_types=["linear_attention", "full_attention"], **sizes)
model = OlmoHybridForCausalLM(config).eval()
with torch.no_grad():
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.copy_(torch.randn_like(weight) / weight.shape[-1] ** 0.5)
ids = torch.randint(4, 40, (1, 6))
with torch.no_grad():
    whole = model(ids, use_cache=False).logits[:, -1]
    cache = model(ids[:, :4], use_cache=True).past_key_values
    chunk = model(ids[:, 4:], past_key_values=cache, use_cache=True).logits[:, -1]
away = (whole - chunk).abs().max().item()
print("two tokens after a prompt are away from a forward of all by", away)
sys.exit(int(away > 1e-3))
