"""Llama 3 with its caches disabled: whether the logits of a token depend on the token after it."""

import sys

import torch
from torchtune.models.llama3._component_builders import llama3
from torchtune.modules.common_utils import disable_kv_cache

torch.manual_seed(0)
sizes = {"vocab_size": 40, "num_layers": 1, "num_heads": 4, "num_kv_heads": 2, "embed_dim": 32, "max_seq_len": 64}
model = llama3(**sizes, intermediate_dim=64).eval()
with torch.no_grad():
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.copy_(torch.randn_like(weight) / weight.shape[-1] ** 0.5)
model.setup_caches(1, torch.float32, decoder_max_seq_len=16)
with torch.no_grad(), disable_kv_cache(model):
    first, second = (model(torch.tensor([[5, after]]))[0, 0] for after in (6, 7))
away = (first - second).abs().max().item()
print("another token after it changes the logits of a token by", away)
sys.exit(int(away > 1e-4))
