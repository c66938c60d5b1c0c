"""GPT-2 behind BERT: a source alone, and with padding that its mask leaves out."""

import sys

import torch
from transformers import BertConfig, BertModel, EncoderDecoderModel, GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
encoder = BertModel(BertConfig(vocab_size=40, **sizes))
own = {"n_embd": 16, "n_layer": 1, "n_head": 2, "initializer_range": 0.5}
decoder = GPT2LMHeadModel(GPT2Config(vocab_size=40, add_cross_attention=True, **own))
model = EncoderDecoderModel(encoder=encoder, decoder=decoder).eval()
said = torch.tensor([[1, 9, 10]])
with torch.no_grad():
    alone = model(torch.tensor([[5, 6]]), torch.ones(1, 2), decoder_input_ids=said).logits
    padded = model(torch.tensor([[5, 6, 0]]), torch.tensor([[1.0, 1.0, 0.0]]), decoder_input_ids=said).logits
away = (alone - padded).abs().max().item()
print("padding of the source changes logits by", away)
sys.exit(int(away > 1e-4))
