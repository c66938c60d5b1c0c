"""Two requests over one text, which is cut into context and continuation at different places."""

import sys

import torch
from lm_eval.api.instance import Instance
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
harness = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=1, max_length=16, device="cpu")


pairs = [("abc", "d"), ("ab", "cd")]
requests = [
    Instance(request_type="loglikelihood", doc={}, arguments=pair, idx=i, metadata=("one", i, 1))
    for i, pair in enumerate(pairs)
]
try:
    print("together", harness.loglikelihood(requests, disable_tqdm=True))
except RuntimeError as error:
    print("RuntimeError:", error)
    sys.exit(1)
