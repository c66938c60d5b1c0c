"""Evaluations of trl's trainers in configurations in which an earlier release was wrong (history/), with references."""

from __future__ import annotations

import copy
import tempfile
from functools import cache
from typing import Any

from hypothesis import strategies as st

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es

LETTERS = "abcdefghijkl"
FIRST, END = 4, 2
SETS = ("train_dataset", "eval_dataset")
ANSWERS = st.text(LETTERS, min_size=3, max_size=3)
TEXTS = es.samples(
    st.tuples(st.text(LETTERS, min_size=1, max_size=4), ANSWERS, ANSWERS),
    collate=list,
    name="a prompt and two answers",
)
"""The trainers take the mean of those of batches: of answers that are equally long it is that of all tokens."""


@cache
def tokenizer() -> Any:
    """One letter, one token."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = {letter: i for i, letter in enumerate(LETTERS, FIRST)}
    backend = Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": END, "<unk>": 3, **letters}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)


def ids(text: str) -> list[int]:
    return [LETTERS.index(letter) + FIRST for letter in text]


@cache
def model() -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    return LlamaForCausalLM(LlamaConfig(vocab_size=40, initializer_range=0.5, **sizes)).eval()


@cache
def folder() -> str:
    return tempfile.mkdtemp()


def trainer(name: str, rows: Any, batch_size: int, **options: Any) -> Any:
    """A new trainer of this name, whose data are a list of rows, or a data set for training alone."""
    import trl
    from datasets import Dataset

    plain = {"report_to": [], "use_cpu": True, "bf16": False, "disable_tqdm": True, "gradient_checkpointing": False}
    sizes = {"per_device_train_batch_size": batch_size, "per_device_eval_batch_size": batch_size}
    args = getattr(trl, f"{name}Config")(folder(), **plain, **sizes, **options)
    data = {"train_dataset": rows} if isinstance(rows, Dataset) else dict.fromkeys(SETS, Dataset.from_list(rows))
    # Where it gets no reference, it copies the model, or loads it by its name.
    reference = {"ref_model": copy.deepcopy(model())} if name == "KTO" else {}
    return getattr(trl, f"{name}Trainer")(model(), args=args, processing_class=tokenizer(), **data, **reference)


def logits(tokens: list[int]) -> Any:
    import torch

    with torch.no_grad():
        return model()(torch.tensor([tokens])).logits[0].double()


def answered(rows: Any) -> dict[str, float]:
    """The mean loss of the tokens of the first answers, and the mean entropy of what is said of them."""
    import torch

    losses: list[float] = []
    entropies: list[float] = []
    for prompt, answer, _ in rows:
        told = logits(ids(prompt + answer))[len(prompt) - 1 : -1]
        losses += torch.nn.functional.cross_entropy(told, torch.tensor(ids(answer)), reduction="none").tolist()
        entropies += torch.distributions.Categorical(logits=told).entropy().tolist()
    return {"loss": sum(losses) / len(losses), "entropy": sum(entropies) / len(entropies)}


def completions(data: Any, batch_size: int) -> Any:
    rows = [
        {"input_ids": ids(prompt + answer), "completion_mask": [0] * len(prompt) + [1] * len(answer)}
        for prompt, answer, _ in data
    ]
    return trainer("SFT", rows, batch_size, completion_only_loss=True)


@ec.loop(inputs=TEXTS, requires=("trl>=1",))
def entropy_that_is_logged() -> Any:
    """`SFTTrainer` of answers alone: the entropy that it logs is that of the tokens with labels."""

    def evaluate(data: Any, batch_size: int = 2) -> Any:
        made = completions(data, batch_size)
        made.evaluate()
        logged = next(line for line in made.state.log_history if "eval_entropy" in line)
        return {"entropy": logged["eval_entropy"]}

    return ec.Loop(evaluate=evaluate, exact=lambda rows: {"entropy": answered(rows)["entropy"]})


@ec.loop(inputs=TEXTS, requires=("trl>=1",))
def entropy_that_is_returned() -> Any:
    """The same number in what `evaluate` returns."""

    def evaluate(data: Any, batch_size: int = 2) -> Any:
        found = completions(data, batch_size).evaluate()
        return {name: found[f"eval_{name}"] for name in ("loss", "entropy")}

    return ec.Loop(evaluate=evaluate, exact=answered)


@ec.loop(inputs=TEXTS, requires=("trl>=1",))
def logits_of_answers() -> Any:
    """`KTOTrainer`: logits/chosen is a mean over the tokens of answers and over the vocabulary."""

    def evaluate(data: Any, batch_size: int = 2) -> Any:
        rows = [{"prompt": prompt, "completion": answer, "label": True} for prompt, answer, _ in data]
        made = trainer("KTO", rows, batch_size, loss_type="apo_zero_unpaired")
        made.evaluate()
        logged = next(line for line in made.state.log_history if "eval_logits/chosen" in line)
        return {"logits": logged["eval_logits/chosen"]}

    def exact(rows: Any) -> dict[str, float]:
        found: list[float] = []
        for prompt, answer, _ in rows:
            tokens = [*ids(prompt + answer), END]
            found += logits(tokens)[len(prompt) - 1 : -1].mean(-1).tolist()
        return {"logits": sum(found) / len(found)}

    return ec.Loop(evaluate=evaluate, exact=exact)


@ec.loop(inputs=TEXTS, requires=("trl>=1",))
def losses_of_pairs() -> Any:
    """`DPOTrainer` with reference log-probabilities that are computed before, of one set or several from a disk."""

    def stored(data: Any) -> Any:
        from datasets import Dataset, load_from_disk

        rows = [{"prompt": prompt, "chosen": one, "rejected": other} for prompt, one, other in data]
        place = tempfile.mkdtemp(dir=folder())
        Dataset.from_list(rows).save_to_disk(place)
        return load_from_disk(place)

    def evaluate(data: Any, batch_size: int = 2) -> Any:
        return {"loss": trainer_of(batch_size).evaluate(stored(data))["eval_loss"]}

    def evaluators(sets: Any, order: Any = (), batch_size: int = 2) -> Any:
        names = list(order or sets)
        found = trainer_of(batch_size).evaluate({name: stored(sets[name]) for name in names})
        return {name: {"loss": found[f"eval_{name}_loss"]} for name in names}

    def trainer_of(batch_size: int) -> Any:
        return trainer("DPO", stored([("a", "b", "c")]), batch_size, precompute_ref_log_probs=True)

    return ec.Loop(evaluate=evaluate, evaluators=evaluators)
