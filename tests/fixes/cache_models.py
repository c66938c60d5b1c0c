"""Tiny decoders of transformers and torchtune, and what they generate without any cache."""

from __future__ import annotations

import torch

VOCABULARY = 61
STOPS = (3, 7, 11, 19, 31)
TRANSFORMERS = ("gpt2", "llama", "mistral", "qwen2")
TORCHTUNE = ("gemma", "gemma2", "llama3", "mistral", "phi3", "qwen2")
CONTEXT = 64


def transformers_model(name, vocabulary=VOCABULARY, window=5):
    import transformers

    sizes = {"vocab_size": vocabulary, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    if name == "gpt2":
        config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=CONTEXT, **sizes)
    else:
        sizes.update(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)
        sizes.update(num_key_value_heads=2, max_position_embeddings=CONTEXT)
        if name == "mistral":
            sizes["sliding_window"] = window
        if name == "qwen2":  # one layer with a window, one without
            sizes.update(use_sliding_window=True, sliding_window=window, max_window_layers=1)
        config = getattr(transformers, f"{name.capitalize()}Config")(**sizes)
    return settled(transformers.AutoModelForCausalLM.from_config(config))


def torchtune_model(name, vocabulary=VOCABULARY, window=5, context=CONTEXT):
    import importlib

    sizes = {"vocab_size": vocabulary, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2, "embed_dim": 32}
    if name != "llama3":
        sizes["intermediate_dim"] = 48
    if name in ("gemma", "gemma2"):
        sizes["head_dim"] = 8
    if name == "gemma2":
        sizes["sliding_window_size"] = window
    builder = getattr(importlib.import_module(f"torchtune.models.{name}"), name)
    return settled(builder(max_seq_len=context, **sizes))


def settled(model):
    """Weights of a size at which every token depends on those before, and the same in every process."""
    torch.manual_seed(11)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.35) if parameter.dim() > 1 else parameter.uniform_(0.5, 1.5)
    return model.double().eval()


def prompts(count, most=18, seed=0, vocabulary=VOCABULARY):
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, most + 1, (count,), generator=draw).tolist()
    return [torch.randint(vocabulary, (length,), generator=draw).tolist() for length in lengths]


def uncached(model, prompt, new, stops=STOPS):
    """One row, one token after the other, the whole text anew each time."""
    ids = list(prompt)
    with torch.no_grad():
        for _ in range(new):
            logits = model(
                torch.tensor([ids]), **({} if "torchtune" in type(model).__module__ else {"use_cache": False})
            )
            token = int(getattr(logits, "logits", logits)[0, -1].argmax())
            ids.append(token)
            if token in stops:
                break
    return ids[len(prompt) :]


class Fed:
    """The shapes of the ids that a model is called with."""

    def __init__(self, model):
        self.shapes = []
        self._hook = model.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, model, args, kwargs):
        ids = args[0] if args else kwargs.get("input_ids")
        self.shapes.append(tuple(ids.shape))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._hook.remove()
