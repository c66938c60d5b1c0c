"""Tiny real models and data sets of transformers, and the oracle: one sample at a time, in float64, no Trainer."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.data import IterableDataset

VOCABULARY = 23
LENGTHS = [3, 9, 4, 12, 5, 2, 11]


def gpt() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=VOCABULARY, n_positions=16, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    )


def bert(kind: str, labels: int = 3) -> Any:
    import transformers

    torch.manual_seed(2)
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=16,
        num_labels=labels,
    )
    return getattr(transformers, kind)(config)


def texts(count: int = 7, *, masked: bool = False) -> list[dict[str, Any]]:
    """Sequences of unequal length, of which the last ones are the hardest for nobody in particular."""
    generator = torch.Generator().manual_seed(5)
    rows = []
    for number in range(count):
        tokens = torch.randint(1, VOCABULARY, (LENGTHS[number % len(LENGTHS)],), generator=generator)
        labels = tokens.clone()
        if masked:
            labels[number % 2 :: 3] = -100
        rows.append({"input_ids": tokens.tolist(), "labels": labels.tolist()})
    return rows


def sentences(count: int = 7, *, labels: int = 3) -> list[dict[str, Any]]:
    return [
        {"input_ids": row["input_ids"], "labels": number % labels if labels > 1 else float(number)}
        for number, row in enumerate(texts(count))
    ]


def padded(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Collate: pad on the right to the longest of the batch."""
    longest = max(len(row["input_ids"]) for row in rows)

    def filled(values: list[int], with_: int) -> list[int]:
        return [*values, *[with_] * (longest - len(values))]

    batch = {
        "input_ids": torch.tensor([filled(row["input_ids"], 0) for row in rows]),
        "attention_mask": torch.tensor([filled([1] * len(row["input_ids"]), 0) for row in rows]),
    }
    for name in rows[0]:
        if name not in batch:
            values = [row[name] for row in rows]
            batch[name] = torch.tensor(
                [filled(each, -100) for each in values] if isinstance(values[0], list) else values
            )
    return batch


class Stream(IterableDataset):
    """Rows without a length."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def __iter__(self) -> Any:
        return iter(self.rows)


def loss_one_by_one(model: Any, rows: list[dict[str, Any]], *, smoothing: float = 0.0) -> float:
    model = model.double().eval()
    total, items = 0.0, 0
    for row in rows:
        batch = padded([row])
        labels = batch.pop("labels")
        with torch.no_grad():
            logits = model(**batch).logits
        if labels.is_floating_point():
            total, items = total + mse_loss(logits.squeeze(), labels.double().squeeze()).item(), items + 1
            continue
        if type(model).__name__.startswith("GPT"):
            logits, labels = logits[:, :-1], labels[:, 1:]
        found = cross_entropy(
            logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), reduction="sum", label_smoothing=smoothing
        )
        total, items = total + found.item(), items + int((labels != -100).sum())
    model.float()
    return total / items
