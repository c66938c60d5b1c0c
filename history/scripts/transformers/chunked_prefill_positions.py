"""A row that is padded on the left, generated with its prompt at once and in chunks."""

import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

different = 0
for seed in range(20):
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=40, n_embd=16, n_layer=2, n_head=2, initializer_range=0.5))
    model = model.double().eval()
    ids = torch.tensor([[0, 0, 0, 5, 6, 7], [8, 9, 10, 11, 12, 13]])
    options = {"attention_mask": (ids != 0).long(), "do_sample": False, "max_new_tokens": 5}
    options |= {"pad_token_id": 0, "eos_token_id": None}
    plain = model.generate(ids, **options)
    different += not torch.equal(plain, model.generate(ids, prefill_chunk_size=2, **options))
print("of 20 models whose texts differ in chunks:", different)
sys.exit(int(different > 0))
