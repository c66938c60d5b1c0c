"""Small models and a tokenizer, so that the examples run real libraries without a network."""

import importlib.metadata
import importlib.util
import logging
import os

# Read when lm_eval is imported: no processes of its own, no cache beside its code, no network.
os.environ.setdefault("DISABLE_MULTIPROC", "1")
os.environ.setdefault("LM_HARNESS_CACHE_PATH", os.path.join(os.path.expanduser("~"), ".cache", "lm_eval"))
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")

import torch
from lm_eval.api.model import TemplateLM

logging.getLogger("lm_eval").setLevel("ERROR")  # it warns of every model that is given as an object
SPECIAL = (0, 1, 2, 3)
PAD = 3


class Letters:
    """A tokenizer with the methods of torchtune's."""

    bos_id, eos_id, pad_id, stop_tokens = 1, 2, PAD, [2]

    def encode(self, text, add_bos=True, add_eos=True):
        return [self.bos_id] * add_bos + [ord(letter) - 0x100 for letter in text] + [self.eos_id] * add_eos

    def decode(self, token_ids, skip_special_tokens=True):
        end = token_ids.index(self.eos_id) if self.eos_id in token_ids else None
        return "".join(chr(0x100 + token) for token in token_ids[:end])


def _recipe():
    path = importlib.metadata.distribution("torchtune").locate_file("recipes/eleuther_eval.py")
    spec = importlib.util.spec_from_file_location("torchtune_eleuther_eval", str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TorchtuneRecipe(_recipe()._LLMEvalWrapper):
    """The model of torchtune's evaluation recipe; it loads no gpt2, of which it uses nothing."""

    def __init__(self, model, batch_size=2):
        TemplateLM.__init__(self)
        self._model, self._tokenizer, self._batch_size = model, Letters(), batch_size
        self._device, self._dtype, self._max_seq_length = torch.device("cpu"), torch.float64, 48
        self.backend, self.truncation, self.add_bos_token, self.batch_schedule = "causal", True, False, 1
        self.batch_sizes, self.softmax_dtype, self.mixed_precision_dtype = {}, None, None
        self.think_end_token = self.enable_thinking = None


def llama():
    """A Llama of torchtune with two layers, the same one in every call, which says no special id."""
    from torchtune.models.llama3 import llama3

    model = llama3(vocab_size=40, num_layers=2, num_heads=2, num_kv_heads=1, embed_dim=16, max_seq_len=64)
    model, numbers = model.double().eval().requires_grad_(False), torch.Generator().manual_seed(0)
    for weight in model.parameters():
        weight.normal_(std=weight.shape[-1] ** -0.5, generator=numbers)
    model.output.weight[:4] = 0
    return model
