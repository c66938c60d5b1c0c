"""Qwen3-Next: a padded row whose prompt comes in two chunks, with padding in the second one."""

import sys

import torch
from transformers import DynamicCache, Qwen3NextConfig, Qwen3NextForCausalLM

torch.manual_seed(0)
sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
sizes |= {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
sizes |= {"intermediate_size": 64, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}
sizes |= {"num_experts": 4, "num_experts_per_tok": 2, "layer_types": ["linear_attention", "full_attention"]}
model = Qwen3NextForCausalLM(Qwen3NextConfig(vocab_size=40, **sizes)).float().eval()
ids = torch.tensor([[0, 0, 0, 0, 0, 5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15]])
mask = (ids != 0).long()
positions = (mask.cumsum(1) - 1).clamp(min=0)


def forward(cache, start, end):
    """The logits of these columns."""
    options = {"attention_mask": mask[:, :end], "position_ids": positions[:, start:end]}
    return model(ids[:, start:end], past_key_values=cache, use_cache=True, **options).logits[:, -1]


with torch.no_grad():
    whole = forward(DynamicCache(config=model.config), 0, 8)
    cache = DynamicCache(config=model.config)
    forward(cache, 0, 3)
    away = (forward(cache, 3, 8) - whole).abs().max(-1).values
print("chunks are away from the whole prompt by", away.tolist())
sys.exit(int(away.max().item() > 1e-3))
