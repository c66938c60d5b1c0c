"""Composer's ``HuggingFaceModel``, evaluated without a change to the batch (mosaicml/composer#3196).

    from pytest_evalcheck.fixes.composer import HuggingFaceModel

This is Composer's own class with the mixin `CleanEvaluation`, and replaces it. Composer is imported when the
class is first used. For a subclass of ``HuggingFaceModel`` use the mixin::

    class Ours(CleanEvaluation, OurHuggingFaceModel): ...

The original pops the labels out of the caller's batch, adds ``decoder_input_ids`` to it, shifts the popped
labels in place, and keeps them on the module until the next batch. A batch that is used again has no labels, a
tensor that is used again is shifted twice, and a batch is scored with the labels of the last forward pass.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pytest_evalcheck.fixes.batches import (
    MissingField,
    field,
    require_batch,
    require_token_labels,
    shift_labels,
    split_labels,
)
from pytest_evalcheck.fixes.containers import shallow_copy
from pytest_evalcheck.fixes.releases import known_release

if TYPE_CHECKING:
    HuggingFaceModel: Any

__all__ = ["CleanEvaluation", "HuggingFaceModel"]


class CleanEvaluation:
    """Mixin before Composer's ``HuggingFaceModel``: an evaluation that passes EC101 to EC111 in every mode.

    The first call of ``eval_forward`` and ``update_metric`` returns what the original returns, bit for bit, in
    all its modes: logits (``use_logits``), loss, and the batch modes "icl_task" and "generate"; for
    encoder-decoders; with outputs that training has cached; for metrics with ``needs_batch``, which get their
    own container without the labels. In loss mode, where the original passes None for labels, or those of an
    older batch (mosaicml/composer#3622), metrics get the labels of the batch as in logits mode.

    Labels are those of the batch that ``update_metric`` is called with. Nothing of a batch is kept on the
    module: ``self.labels``, which the original sets, stays None. Shifted labels are new memory for each call of
    ``update_metric``, so that a metric that writes into them changes neither the batch nor what the next metric
    gets. Labels that need no shift are the batch's own tensor, not a copy.

    For a batch that cannot be scored, an error that names the field is raised before the model runs: see
    `require_batch`.

    ``HuggingFaceModel`` of this module is Composer's with it.

    Symptom: Composer's wrapper takes the labels out of the batch, so that a second metric finds none.

    Before::

        from composer.models import HuggingFaceModel

    After::

        from pytest_evalcheck.fixes.composer import HuggingFaceModel

    Costs: a new container for each batch, and one copy of labels that are shifted.

    Shown by: EC101, EC103, EC111.
    """

    model: Any
    config: Any
    tokenizer: Any
    use_logits: Any
    shift_labels: Any
    labels: None

    def eval_forward(self, batch: Any, outputs: Any = None) -> Any:
        """Return logits, or all outputs in loss mode, or a list of texts in generate mode.

        ``outputs`` are those of an earlier forward pass of this batch; without them, or with empty ones, the
        model runs. TypeError, ValueError or `MissingField` (a KeyError) where the batch or the outputs lack what
        the mode needs.
        """
        mode = self._mode(batch)
        fields: tuple[str, ...] = ("labels",)
        if mode == "generate":
            fields = ("labels", "input_ids", "attention_mask")
        elif mode == "loss" and ("decoder_input_ids" in batch or not self.config.is_encoder_decoder):
            fields = ()  # without labels there are outputs but no loss
        require_batch(batch, fields=fields, rows=_per_row(batch, mode))
        if self._shifts(mode) and "labels" in batch:
            require_token_labels(batch["labels"], where="batch['labels']")
        if mode == "generate":
            return self._generated(batch)
        computed = isinstance(outputs, Tensor) or bool(outputs)
        if mode == "loss":
            return outputs if computed else self.forward(batch)  # type: ignore[attr-defined]
        if not computed:
            # Without the labels, so that the model does not compute an unused loss.
            outputs = self.forward(self._inputs(batch))  # type: ignore[attr-defined]
        logits = _logits(outputs, by_name=self.config.use_return_dict)
        return logits.squeeze(dim=1) if logits.ndim == 2 and logits.shape[1] == 1 else logits

    def update_metric(self, batch: Any, outputs: Any, metric: Any) -> Any:
        """Update one metric with the outputs and the labels of this batch; any metrics, any number, in any order.

        Return what the metric's ``update`` returned, with its name once per row under "metric_name", or {}.
        """
        mode = self._mode(batch)
        labels = self._move_labels(field(batch, "labels"), outputs, metric)
        if self._shifts(mode):
            labels = shift_labels(labels)
        if getattr(metric, "needs_batch", False):
            own = shallow_copy(batch) if mode == "loss" else self._inputs(batch, decoder=mode != "generate")
            result = metric.update(batch=own, outputs=outputs, labels=labels)
        else:
            result = metric.update(outputs, labels)
        if result is None:
            return {}
        if not isinstance(result, Mapping):
            kind = type(metric).__name__
            raise TypeError(f"{kind}.update: expected a mapping or None to be returned, got {type(result).__name__}")
        rows = require_batch(batch, fields=(), rows=_per_row(batch, mode))
        return {**result, "metric_name": [type(metric).__name__] * rows}

    def _move_labels(self, labels: Any, outputs: Any, metric: Any) -> Any:  # noqa: ARG002  (OneDevice uses them)
        """Return the labels on the CPU for a metric there; `fixes.composer_devices` does more."""
        return _move_to_cpu(labels) if metric.device.type == "cpu" else labels

    def _mode(self, batch: Any) -> str:
        if not isinstance(batch, Mapping):
            raise TypeError(f"batch: expected a mapping such as a dict or a BatchEncoding, got {type(batch).__name__}")
        asked = batch.get("mode", None)
        return asked if asked in ("generate", "icl_task") else "logits" if self.use_logits else "loss"

    def _shifts(self, mode: str) -> bool:
        return mode == "icl_task" or (mode in ("logits", "loss") and bool(self.shift_labels))

    def _inputs(self, batch: Any, *, decoder: bool = True) -> Any:
        inputs, labels = split_labels(batch)
        if not (decoder and self.config.is_encoder_decoder) or "decoder_input_ids" in inputs:
            return inputs
        if not hasattr(self.model, "prepare_decoder_input_ids_from_labels"):
            raise RuntimeError(
                "batch: expected 'decoder_input_ids', which this encoder-decoder needs and cannot make from labels: "
                f"{type(self.model).__name__} has no prepare_decoder_input_ids_from_labels"
            )
        if not isinstance(inputs, MutableMapping):
            inputs = dict(inputs)
        inputs["decoder_input_ids"] = self.model.prepare_decoder_input_ids_from_labels(labels=labels)
        return inputs

    def _generated(self, batch: Any) -> list[str]:
        if self.tokenizer is None:
            raise ValueError("tokenizer: generate mode needs the tokenizer, and the wrapper was made without one")
        prompts = batch["input_ids"]
        ids = self.generate(  # type: ignore[attr-defined]
            prompts,
            attention_mask=batch["attention_mask"],
            synced_gpus=_world_size() > 1,
            **batch.get("generation_kwargs", {}),
        )
        texts = self.tokenizer.batch_decode(ids[:, prompts.shape[1] :], skip_special_tokens=True)
        # Sentencepiece models drop a leading space when they decode.
        keeps_space = len(self.tokenizer(" a", add_special_tokens=False)["input_ids"]) == 1
        return list(texts) if keeps_space else [f" {text}" for text in texts]


def composer_class(module: str, name: str, *mixins: type) -> Any:
    """Return Composer's class of this name with mixins in front; ImportError where Composer is not installed."""
    original = getattr(import_composer("composer.models", f"{module}.{name}", mixins[0].__name__), name)
    text = " and ".join(f"`{each.__name__}`" for each in mixins)
    document = f"Composer's ``{name}``, with evaluation as in {text}.\n\n{original.__doc__}"
    return type(original)(name, (*mixins, original), {"__module__": module, "__doc__": document})


def import_composer(module: str, wanted: str, without: str) -> Any:
    """Import a module of Composer or torchmetrics; ImportError says what needs it and what works without it."""
    try:
        with known_release("mosaicml", wanted):
            return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{wanted} needs Composer, which could not be imported ({error}): "
            f"pip install mosaicml transformers; {without} works without it"
        ) from error


def __getattr__(name: str) -> Any:
    if name != "HuggingFaceModel":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, composer_class(__name__, name, CleanEvaluation))


def _per_row(batch: Mapping[str, Any], mode: str) -> list[str]:
    labels = batch.get("labels")
    exact = [name for name in ("input_ids", "labels") if isinstance(batch.get(name), Tensor)]
    if mode == "generate" and isinstance(labels, list):  # the answers to each prompt
        exact.append("labels")
    # A mask of one row, or of four dimensions, is for the model to broadcast.
    masks = {name: batch.get(name) for name in ("attention_mask", "token_type_ids")}
    full = [name for name, mask in masks.items() if isinstance(mask, Tensor) and mask.ndim == 2 and len(mask) != 1]
    return exact + full


def _logits(outputs: Any, *, by_name: bool) -> Any:
    if not isinstance(outputs, Mapping if by_name else tuple | list | Mapping):
        wanted = "a mapping with 'logits'" if by_name else "a tuple of the model's outputs"
        raise TypeError(f"outputs: expected {wanted}, got {type(outputs).__name__}")
    held = dict(outputs) if isinstance(outputs, Mapping) else dict(enumerate(outputs))
    found = [value for key, value in held.items() if key == "logits" or not by_name]
    # Without names, a loss is a scalar before the logits, where the model computed one.
    skip = 1 if not by_name and found and getattr(found[0], "ndim", None) == 0 else 0
    if len(found) <= skip:
        raise MissingField(f"outputs: expected 'logits' among the model's outputs, got {', '.join(map(repr, held))}")
    logits = found[skip]
    if not isinstance(logits, Tensor):
        raise TypeError(f"outputs: expected logits that are a tensor, got {type(logits).__name__}")
    return logits


def _move_to_cpu(value: Any) -> Any:
    # Containers are new ones, so that a metric that writes into one does not change the batch.
    if isinstance(value, Tensor):
        return value.cpu()
    if isinstance(value, Mapping):
        return {key: _move_to_cpu(inner) for key, inner in value.items()}
    return type(value)(map(_move_to_cpu, value)) if type(value) in (list, tuple) else value


def _world_size() -> int:
    distributed = torch.distributed
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1
