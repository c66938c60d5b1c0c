"""Attention of OPT beside softmax(q k / sqrt(width)) v of its own projections."""

import sys

import torch
from transformers import OPTConfig
from transformers.models.opt.modeling_opt import OPTAttention

torch.manual_seed(0)
config = OPTConfig(hidden_size=16, num_attention_heads=2, dropout=0.0, attention_dropout=0.0)
config._attn_implementation = "eager"
attention = OPTAttention(config, layer_idx=0).eval()
x = torch.randn(1, 5, 16) * 3
with torch.no_grad():
    q, k, v = (getattr(attention, f"{name}_proj")(x).view(1, 5, 2, 8).transpose(1, 2) for name in ("q", "k", "v"))
    mixed = ((q @ k.transpose(-1, -2)) / 8**0.5).softmax(-1) @ v
    expected = attention.out_proj(mixed.transpose(1, 2).reshape(1, 5, 16))
    actual = attention(x)[0]
away = (actual - expected).abs().max().item()
print("away from the definition by", away)
sys.exit(int(away > 1e-4))
