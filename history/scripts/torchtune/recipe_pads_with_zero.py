"""The evaluation recipe generates for two prompts of unequal length, with a tokenizer whose padding is not 0."""

import importlib.metadata
import importlib.util
import sys
from unittest import mock

import torch
from lm_eval.models.huggingface import HFLM
from torchtune.models.llama3._component_builders import llama3

path = importlib.metadata.distribution("torchtune").locate_file("recipes/eleuther_eval.py")
spec = importlib.util.spec_from_file_location("recipe", str(path))
recipe = importlib.util.module_from_spec(spec)
spec.loader.exec_module(recipe)


class Numbers:
    """A tokenizer of ids that are written as numbers."""

    bos_id, eos_id, pad_id, stop_tokens = 1, 2, 3, []


class Wrapper(recipe._LLMEvalWrapper):
    """It generates five tokens, not 256."""

    max_gen_toks = 5


sizes = {"vocab_size": 40, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2, "embed_dim": 32, "max_seq_len": 64}
different = 0
for seed in range(10):
    torch.manual_seed(seed)
    model = llama3(**sizes, intermediate_dim=64).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.copy_(torch.randn_like(weight) / weight.shape[-1] ** 0.5)
    with mock.patch.object(HFLM, "__init__", lambda self, **_: setattr(self, "_device", torch.device("cpu"))):
        options = {"device": "cpu", "max_seq_length": 48, "dtype": torch.float32}
        two, one = (Wrapper(model, Numbers(), batch_size=rows, **options) for rows in (2, 1))
    together = two._model_generate(torch.tensor([[3, 3, 3, 5, 6], [7, 8, 9, 10, 11]]))[0, 5:].tolist()
    alone = one._model_generate(torch.tensor([[5, 6]]))[0, 2:].tolist()
    different += alone != together
print("of 10 models that continue a prompt otherwise beside a longer one:", different)
sys.exit(int(different > 0))
