"""Prompt tuning: what generate gives, beside the best token of a forward after each."""

import sys

import peft
import torch
from transformers import LlamaConfig, LlamaForCausalLM

sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
different = 0
for seed in range(10):
    torch.manual_seed(seed)
    base = LlamaForCausalLM(LlamaConfig(vocab_size=40, initializer_range=0.5, **sizes))
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    model = peft.get_peft_model(base, config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter))
        ids = torch.tensor([[5, 6, 7]])
        try:
            options = {"do_sample": False, "max_new_tokens": 4, "eos_token_id": None, "pad_token_id": 0}
            found = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **options)[0, 3:]
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            print(type(error).__name__, error)
            sys.exit(1)
        right = ids
        for _ in range(4):
            logits = model(input_ids=right, attention_mask=torch.ones_like(right)).logits[:, -1]
            right = torch.cat([right, logits.argmax(-1)[:, None]], 1)
    different += found.tolist() != right[0, 3:].tolist()
print("of 10 models whose generation is not that of forwards:", different)
sys.exit(int(different > 0))
