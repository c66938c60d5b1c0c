"""A classifier of sequences: a row that is padded on the left beside the row alone."""

import sys

import torch
from transformers import LlamaConfig, LlamaForSequenceClassification

torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
model = LlamaForSequenceClassification(LlamaConfig(vocab_size=40, pad_token_id=0, **sizes)).eval()
with torch.no_grad():
    alone = model(torch.tensor([[5, 6, 7]])).logits
    padded = model(torch.tensor([[0, 5, 6, 7]]), attention_mask=torch.tensor([[0, 1, 1, 1]])).logits
away = (alone - padded).abs().max().item()
print("a padded row is away from the row alone by", away)
sys.exit(int(away > 1e-4))
