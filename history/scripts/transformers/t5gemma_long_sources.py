"""T5Gemma: a source that is longer than the window, generated with a cache and without."""

import sys

import torch
from transformers import T5GemmaConfig, T5GemmaForConditionalGeneration
from transformers.models.t5gemma.configuration_t5gemma import T5GemmaModuleConfig

torch.manual_seed(0)
sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
sizes |= {"num_key_value_heads": 2, "head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 4}
sizes |= {"vocab_size": 40, "layer_types": ["sliding_attention", "full_attention"]}
parts = {name: T5GemmaModuleConfig(**sizes) for name in ("encoder", "decoder")}
tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
model = T5GemmaForConditionalGeneration(T5GemmaConfig(**parts, vocab_size=40, **tokens)).double().eval()
with torch.no_grad():
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.copy_(torch.randn_like(weight) / weight.shape[-1] ** 0.5)
options = {"do_sample": False, "max_new_tokens": 3, "eos_token_id": None, "output_logits": True}
options |= {"return_dict_in_generate": True, "attention_mask": torch.ones(1, 9, dtype=torch.long)}
source = torch.randint(4, 40, (1, 9))
plain = model.generate(source, use_cache=False, **options).logits
try:
    cached = model.generate(source, use_cache=True, **options).logits
except RuntimeError as error:
    print(error)
    sys.exit(1)
away = (plain[1] - cached[1]).abs().max().item()
print("the second step with a cache is away from one without by", away)
sys.exit(int(away > 1e-4))
