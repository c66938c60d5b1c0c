"""Tiny models in every mode of Composer's ``HuggingFaceModel``, with batches that the mode takes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import tokenizers
import torch
import transformers
from composer.metrics import LanguageCrossEntropy, LanguagePerplexity, MaskedAccuracy
from torchmetrics import MeanSquaredError, Metric

LETTERS = ["<pad>", "<end>", *"abcdefgh "]
WORDS = 20


class Recorder(Metric):
    """Keeps what ``update`` was given, and answers as metrics of in-context learning do."""

    needs_batch = True

    def __init__(self, needs_batch: bool = True) -> None:
        super().__init__()
        self.needs_batch = needs_batch
        self.given: list[Any] = []

    def _wrap_update(self, update: Any) -> Any:
        return update  # torchmetrics would drop what it returns

    def update(self, *arguments: Any, **named: Any) -> dict[str, list[int]]:
        self.given.append(arguments or named)
        return {"row": [1, 2, 3]}

    def compute(self) -> int:
        return len(self.given)


class Loss(Metric):
    def __init__(self) -> None:
        super().__init__()
        self.add_state("losses", default=[], dist_reduce_fx="cat")

    def update(self, outputs: Any, labels: Any) -> None:
        self.losses.append(outputs["loss"])

    def compute(self) -> Any:
        return torch.stack(self.losses).sum()


@dataclass(frozen=True)
class Case:
    model: Callable[[], Any]
    batch: Callable[[int], dict[str, Any]]
    options: dict[str, Any] = field(default_factory=dict)
    metrics: tuple[Any, ...] = (LanguagePerplexity, LanguageCrossEntropy, MaskedAccuracy)
    pops: bool = True
    shifts: bool = False
    adds: tuple[str, ...] = ()

    def wrapper(self, kind: Any, **options: Any) -> Any:
        torch.manual_seed(5)
        return kind(self.model(), eval_metrics=[make() for make in self.metrics], **self.options, **options).eval()


def gpt2(**options: Any) -> Any:
    sizes = {
        "vocab_size": WORDS,
        "n_positions": 16,
        "n_embd": 16,
        "n_layer": 2,
        "n_head": 2,
        "bos_token_id": 1,
        "eos_token_id": 1,
    }
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False, **sizes, **options))


class Tuples(torch.nn.Module):
    """A model that is configured to return tuples; some of transformers' own cannot be."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = gpt2()
        self.config = transformers.GPT2Config(vocab_size=WORDS, return_dict=False)

    def forward(self, input_ids: Any, attention_mask: Any = None, labels: Any = None) -> Any:
        return self.inner(input_ids, attention_mask=attention_mask, labels=labels).to_tuple()


def bert(kind: Any, **options: Any) -> Any:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    return kind(transformers.BertConfig(vocab_size=WORDS, max_position_embeddings=16, **sizes, **options))


def t5() -> Any:
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=WORDS, **sizes))


def letters() -> Any:
    model = tokenizers.models.WordLevel({letter: index for index, letter in enumerate(LETTERS)}, unk_token="<pad>")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = tokenizers.decoders.Fuse()
    inputs = ["input_ids", "attention_mask"]
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>", padding_side="left", model_input_names=inputs
    )


def text(seed: int, rows: int = 3, tokens: int = 6) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(2, WORDS, (rows, tokens), generator=generator)
    mask = torch.ones_like(ids)
    mask[0, -2:] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def prompts(seed: int) -> dict[str, Any]:
    batch = letters()(["abc", "a b", "hg"], padding=True, return_tensors="pt")
    ids = (batch["input_ids"] + seed).where(batch["attention_mask"] == 1, 0) % len(LETTERS)
    kwargs = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    return {
        "input_ids": ids,
        "attention_mask": batch["attention_mask"],
        "labels": ["a", "b", "c"],
        "mode": "generate",
        "generation_kwargs": kwargs,
    }


def masked(seed: int) -> dict[str, Any]:
    batch = text(seed)
    hidden = torch.zeros_like(batch["labels"], dtype=torch.bool)
    hidden[:, ::3] = True
    return {
        **batch,
        "input_ids": batch["input_ids"].masked_fill(hidden, 1),
        "labels": batch["labels"].where(hidden, -100),
    }


def regression(seed: int, rows: int = 3) -> dict[str, Any]:
    return {**text(seed, rows), "labels": torch.arange(float(rows)) + seed}


CASES = {
    "gpt2 logits": Case(gpt2, text, {"use_logits": True}, shifts=True),
    "gpt2 in-context": Case(gpt2, lambda seed: {**text(seed), "mode": "icl_task"}, shifts=True),
    "gpt2 tuples": Case(Tuples, text, {"use_logits": True, "shift_labels": True}, shifts=True),
    "gpt2 unshifted": Case(gpt2, text, {"use_logits": True, "shift_labels": False}),
    "gpt2 loss": Case(gpt2, text, metrics=(Loss,), pops=False),
    "gpt2 generate": Case(gpt2, prompts, {"tokenizer": letters()}, metrics=(Recorder,)),
    "bert masked": Case(lambda: bert(transformers.BertForMaskedLM), masked, {"use_logits": True}),
    "bert regression": Case(
        lambda: bert(transformers.BertForSequenceClassification, num_labels=1),
        regression,
        {"use_logits": True},
        metrics=(MeanSquaredError,),
    ),
    "bert one row": Case(
        lambda: bert(transformers.BertForSequenceClassification, num_labels=1),
        lambda seed: regression(seed, rows=1),
        {"use_logits": True},
        metrics=(MeanSquaredError,),
    ),
    "t5 logits": Case(t5, text, {"use_logits": True}, adds=("decoder_input_ids",)),
    "t5 in-context": Case(
        t5, lambda seed: {**text(seed), "mode": "icl_task"}, shifts=True, adds=("decoder_input_ids",)
    ),
    "t5 with decoder ids": Case(
        t5, lambda seed: {**text(seed), "decoder_input_ids": text(seed + 9)["input_ids"]}, {"use_logits": True}
    ),
}


def scored(wrapper: Any, batch: Any, outputs: Any = None, metrics: Any = None) -> tuple[Any, list[Any], list[Any]]:
    metrics = list(wrapper.get_metrics().values()) if metrics is None else metrics
    with torch.no_grad():
        outputs = wrapper.eval_forward(batch, outputs)
    results = [wrapper.update_metric(batch, outputs, metric) for metric in metrics]
    return outputs, results, [metric.compute() for metric in metrics]


def snapshot(batch: Any) -> list[Any]:
    return [(key, id(value), *_content(value)) for key, value in batch.items()]


def _content(value: Any) -> tuple[Any, Any]:
    return (value.tolist(), value._version) if isinstance(value, torch.Tensor) else (copy.deepcopy(value), None)


def equal(left: Any, right: Any) -> bool:
    """Bit for bit, and of the same types."""
    if isinstance(left, torch.Tensor):
        return left.dtype == right.dtype and torch.equal(left, right)
    if hasattr(left, "items"):
        return list(left) == list(right) and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(equal, left, right))
    return type(left) is type(right) and left == right
