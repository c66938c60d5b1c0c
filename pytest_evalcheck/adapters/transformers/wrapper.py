"""transformers: a `PreTrainedModel` with a head, called as the evaluation loops of transformers call it."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.kinds.common.convention import Convention
from pytest_evalcheck.kinds.wrapper.label_scores import LabelScore
from pytest_evalcheck.kinds.wrapper.subject import Wrapper

CLASSES = ("peft.peft_model.PeftModel", "transformers.modeling_utils.PreTrainedModel")

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
    predicted = _PREDICTED.get(getattr(model, "loss_type", ""))
    return Wrapper(
        forward=lambda batch: called(model, **batch),
        update=_update,
        model=model,
        move=_move,
        move_outputs=_move,
        rows=lambda outputs: {name: outputs[name] for name in _ROWWISE if outputs.get(name) is not None},
        conventions=_conventions(model),
        log_probabilities={"loss": LabelScore(score=_mean, logits=partial(_labelled, predicted))} if predicted else {},
        source=model,
    )


def _mean(_: Any, outputs: Any) -> Any:
    return -outputs["loss"]


def _labelled(predicted: Callable[[Any, Any], tuple[Any, Any]], batch: Any, outputs: Any) -> tuple[Any, Any] | None:
    """Return logits and labels; None without labels, and where they are numbers to be predicted."""
    logits, labels = outputs["logits"], batch.get("labels")
    classes = labels is not None and not labels.is_floating_point() and logits.shape[-1] > 1
    return predicted(logits, labels) if classes else None


def _as_they_are(logits: Any, labels: Any) -> tuple[Any, Any]:
    return logits, labels


def _next(logits: Any, labels: Any) -> tuple[Any, Any]:
    """Return the logits and the label of the next position; nothing is said of virtual tokens before the labels."""
    import torch

    before = logits.shape[1] - labels.shape[1]
    return logits[:, :-1], torch.nn.functional.pad(labels, (before, 0), value=-100)[:, 1:]


_OF_CLASSES = ("Token", "Sequence", "Image", "Video", "Audio")
_PREDICTED = {"ForCausalLM": _next, "ForMaskedLM": _as_they_are} | {
    f"For{name}Classification": _as_they_are for name in _OF_CLASSES
}
"""The logits that predict labels, by the name that a model has for its loss."""

_TUPLE = '"Whether or not to return a `ModelOutput` instead of a plain tuple." (return_dict of the forward)'


def _conventions(model: Any) -> dict[str, Convention]:
    """Outputs as a plain tuple, and the fields of a batch by position, in the order of the signature."""
    names = list(inspect.signature(model.forward).parameters)

    def as_tuple(batch: Any) -> Any:
        named = called(model, **copy.deepcopy(batch))  # which a model may change
        # Its entries are those of the output that has names, in this order; some models keep a place for what is None.
        entries = [entry for entry in called(model, **batch, return_dict=False) if entry is not None]
        return type(named)(dict(zip(named.keys(), entries, strict=True)))

    def by_position(batch: Any) -> Any:
        last = max((names.index(name) for name in batch if name in names), default=-1)
        others = {name: value for name, value in batch.items() if name not in names}  # those of **kwargs
        return called(model, *(batch.get(name) for name in names[: last + 1]), **others)

    return {
        "a plain tuple": Convention(_TUPLE, forward=as_tuple),
        "fields by position": Convention(f"The signature has this order: {', '.join(names)}.", forward=by_position),
    }


def _move(batch: Any, device: str) -> Any:
    """Move as its trainer does with batches, and hooks of models on several devices with outputs: with accelerate."""
    from accelerate.utils import send_to_device

    return send_to_device(batch, device)


def _update(batch: Any, outputs: Any, metric: Any) -> Any:
    labels = batch.get("labels") if isinstance(batch, Mapping) else None
    return called(metric.update, outputs["logits"], labels)
