"""transformers: a `PreTrainedModel` with a head, called as the evaluation loops of transformers call it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_evalcheck.kinds.wrapper.subject import Wrapper

_ROWWISE = (
    "logits",
    "prediction_logits",
    "seq_relationship_logits",
    "start_logits",
    "end_logits",
    "last_hidden_state",
    "pooler_output",
    "logits_per_image",
    "image_embeds",
    "text_embeds",
)
"""Outputs of which the first dimension counts rows; in others, such as router logits, it counts tokens."""


def record(model: Any) -> Wrapper:
    """The record of a model: it gets the fields of a batch by name; metrics get the logits and the labels."""
    return Wrapper(
        forward=lambda batch: model(**batch),
        update=_update,
        model=model,
        move=_move,
        move_outputs=_move,
        rows=lambda outputs: {name: outputs[name] for name in _ROWWISE if outputs.get(name) is not None},
        source=model,
    )


def _move(batch: Any, device: str) -> Any:
    """As its trainer does with batches, and hooks of models on several devices with outputs: with accelerate."""
    from accelerate.utils import send_to_device

    return send_to_device(batch, device)


def _update(batch: Any, outputs: Any, metric: Any) -> Any:
    labels = batch.get("labels") if isinstance(batch, Mapping) else None
    return metric.update(outputs["logits"], labels)
