"""Prefix tuning of a model whose heads have a width of their own."""

import sys

import torch
from peft import PrefixTuningConfig, TaskType, get_peft_model
from transformers import Qwen3Config, Qwen3ForCausalLM

torch.manual_seed(0)
sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
model = Qwen3ForCausalLM(Qwen3Config(vocab_size=40, intermediate_size=64, **sizes))
made = get_peft_model(model, PrefixTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=3)).eval()
try:
    with torch.no_grad():
        logits = made(input_ids=torch.tensor([[5, 6, 7]])).logits
except RuntimeError as error:
    print("RuntimeError:", error)
    sys.exit(1)
print("logits of shape", list(logits.shape))
