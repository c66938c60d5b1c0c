"""Beam search of a row alone, and beside a row that goes on for longer."""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
options = {"do_sample": False, "num_beams": 2, "max_new_tokens": 20, "eos_token_id": 2, "pad_token_id": 0}
options |= {"early_stopping": False, "suppress_tokens": [0]}


def until_the_end(row):
    """The tokens after the prompt, up to the end."""
    found = row.tolist()[4:]
    return found[: found.index(2) + 1] if 2 in found else found


different = 0
for seed in range(15):
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=8, initializer_range=0.5, **sizes)).double().eval()
    rows = torch.randint(4, 8, (4, 4))
    together = model.generate(rows, attention_mask=torch.ones_like(rows), **options)
    for row, beside in zip(rows, together, strict=True):
        alone = model.generate(row[None], attention_mask=torch.ones_like(row[None]), **options)[0]
        different += until_the_end(alone) != until_the_end(beside)
print("rows of 60 with another text beside others than alone:", different)
sys.exit(int(different > 0))
