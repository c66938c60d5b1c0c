"""A forward of XLMRobertaForMultipleChoice."""

import sys

import torch
from transformers import XLMRobertaConfig, XLMRobertaForMultipleChoice

sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
model = XLMRobertaForMultipleChoice(XLMRobertaConfig(vocab_size=40, **sizes)).eval()
try:
    print(model(torch.tensor([[[5, 6], [7, 8]]])).logits.shape)
except (IndexError, TypeError) as error:
    print(type(error).__name__, error)
    sys.exit(1)
