"""Texts of several windows, with a cache: every text must have a key of its own."""

import os
import sys
import tempfile
from pathlib import Path

import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import CachingLM
from lm_eval.models.huggingface import HFLM
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

names = ["<pad>", "<bos>", "<eos>", "<unk>", *"abcdef"]
backend = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
backend.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
special = {"pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>"}
tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **special)
torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
model = LlamaForCausalLM(LlamaConfig(vocab_size=len(names), initializer_range=0.5, **sizes)).double().eval()
harness = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=1, max_length=4, device="cpu")
texts = ["abcdefab", "fedcbaba"]
requests = [
    Instance(request_type="loglikelihood_rolling", doc={}, arguments=(text,), idx=i, metadata=("one", i, 1))
    for i, text in enumerate(texts)
]
with tempfile.TemporaryDirectory() as folder:
    cached = CachingLM(harness, str(Path(folder) / "responses.db"))
    try:
        cached.loglikelihood_rolling(requests)
    except TypeError as error:
        print("TypeError:", error, flush=True)
        os._exit(1)  # the thread of the cache does not end
    cached.dbdict.commit()
    kept = list(cached.dbdict.items())
    cached.dbdict.close()
print(len(texts), "texts,", len(kept), "keys in the cache")
sys.exit(int(len(kept) != len(texts)))
