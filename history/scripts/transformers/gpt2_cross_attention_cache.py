"""GPT-2 behind BERT: steps with a cache and without one, for a source with padding."""

import sys

import torch
from transformers import BertConfig, BertModel, EncoderDecoderModel, GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
encoder = BertModel(BertConfig(vocab_size=40, **sizes))
own = {"n_embd": 16, "n_layer": 1, "n_head": 2, "initializer_range": 0.5}
decoder = GPT2LMHeadModel(GPT2Config(vocab_size=40, add_cross_attention=True, **own))
model = EncoderDecoderModel(encoder=encoder, decoder=decoder).eval()
model.config.decoder_start_token_id, model.config.pad_token_id = 1, 0
source, mask = torch.tensor([[5, 6, 7, 0]]), torch.tensor([[1, 1, 1, 0]])
options = {"decoder_start_token_id": 1, "eos_token_id": None, "pad_token_id": 0, "max_new_tokens": 8}
options |= {"do_sample": False, "output_logits": True, "return_dict_in_generate": True}
with torch.no_grad():
    plain = model.generate(source, attention_mask=mask, use_cache=False, **options)
    try:
        cached = model.generate(source, attention_mask=mask, use_cache=True, **options)
    except RuntimeError as error:
        print(error)
        sys.exit(1)
away = max((a - b).abs().max().item() for a, b in zip(plain.logits[:2], cached.logits[:2], strict=True))
print("logits of steps with a cache are away by", away)
sys.exit(int(away > 1e-4))
