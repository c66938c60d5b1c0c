"""RecurrentGemma: a generation from a prompt that is longer than the window, with its mask."""

import sys

import torch
from transformers import RecurrentGemmaConfig, RecurrentGemmaForCausalLM

torch.manual_seed(0)
sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64, "lru_width": 32}
config = RecurrentGemmaConfig(vocab_size=40, attention_window_size=6, num_key_value_heads=2, **sizes)
model = RecurrentGemmaForCausalLM(config).eval()
ids = torch.randint(4, 40, (1, 10))
options = {"do_sample": False, "max_new_tokens": 3, "eos_token_id": None, "pad_token_id": 0}
try:
    print(model.generate(ids, attention_mask=torch.ones_like(ids), **options)[0, 10:].tolist())
except (RuntimeError, IndexError) as error:
    print(type(error).__name__, error)
    sys.exit(1)
