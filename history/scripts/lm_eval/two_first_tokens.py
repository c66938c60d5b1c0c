"""Requests without a context, by a tokenizer that begins every text with its own first token."""

import sys

import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

names = ["<pad>", "<bos>", "<eos>", "<unk>", *"abcdef"]
backend = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
backend.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
backend.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 1)])
special = {"pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>"}
tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **special)
torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
model = LlamaForCausalLM(LlamaConfig(vocab_size=len(names), initializer_range=0.5, **sizes)).double().eval()
harness = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=1, max_length=16, device="cpu", add_bos_token=True)
request = Instance(request_type="loglikelihood", doc={}, arguments=("", "abc"), idx=0)
found = harness.loglikelihood([request], disable_tqdm=True)[0][0]
ids = torch.tensor([[1, 4, 5, 6]])
with torch.no_grad():
    right = model(ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None]).sum().item()
print("the log-likelihood of abc is", found, "and should be", right)
sys.exit(int(abs(found - right) > 1e-4))
