"""An ``eval_loss`` of transformers' Trainer that does not depend on batches, padding and ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.fixes.loops.losses import LossMean
from pytest_evalcheck.fixes.loops.oom_retry import cut_rows
from pytest_evalcheck.fixes.loops.ranks import gather_objects
from pytest_evalcheck.fixes.releases import known_release

with known_release("transformers", "ExactLossTrainer"):
    from transformers import Trainer
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

IGNORED = -100
ANSWER_POSITIONS = {"start_positions", "end_positions"}


class ExactLossMixin:
    """Mixin before a Trainer: ``eval_loss`` is the mean over all label tokens, or over samples without token labels.

    The Trainer itself computes a mean of batch means. The items that count are those that the model's loss is a mean
    over: labels that are not -100, shifted ones for a causal model; rows, where labels are numbers or positions of
    answers. `loss_items` returns their number; override it for your own loss. Once per trainer a batch of two rows
    or more is also evaluated in two parts: where the loss is no such mean, for example a sum or a loss between
    samples, that is a ValueError instead of a wrong number. ``exact_loss_check = False`` disables this.

    With a NaN or an infinity ``eval_loss`` is one too, whatever ``logging_nan_inf_filter`` says. Over ranks, rows that
    pad the last batch do not count, for which that batch is evaluated a second time. Gathered predictions, and
    ``losses`` in ``compute_metrics``, are those of the Trainer.

    `ExactLossTrainer` is a Trainer with it.

    Symptom: ``eval_loss`` depends on the batch size, on padding, or on the number of ranks.

    Before::

        from transformers import Trainer

        trainer = Trainer(model, arguments())

    After::

        from pytest_evalcheck.fixes.loops import ExactLossMixin
        from transformers import Trainer

        class ExactTrainer(ExactLossMixin, Trainer):
            pass

        trainer = ExactTrainer(model, arguments())

    Costs: one batch is evaluated twice for each trainer; over ranks the last batch is, where it has padding.

    Limits: DataParallel, answers outside of the tokens, and streams over ranks without ``dispatch_batches`` are
    refused.

    Target: ec.loop(inputs=es.causal_lm(vocab=23, containers=("dict",))) with trainer_loop(trainer)

    Shown by: EC501.
    """

    exact_loss_check = True
    exact_loss_tolerance = 1e-3
    _exact: LossMean | None = None
    _checked = False
    _fault: str | None = None

    def loss_items(self, inputs: Mapping[str, Any]) -> int:
        """Return the number of items that the loss of these inputs is the mean of."""
        return items_of_loss(inputs, list(self.label_names), self._shifts())  # type: ignore[attr-defined]

    def _shifts(self) -> bool:
        model = self.accelerator.unwrap_model(self.model)  # type: ignore[attr-defined]
        inner = getattr(getattr(model, "base_model", None), "model", None)  # of an adapter of PEFT
        names = {type(each).__name__ for each in (model, inner)}
        # The Trainer reads the kind of loss alone, which some causal models, GPT-2 among them, do not name.
        named = bool(names & set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()))
        return named or bool(getattr(self, "_loss_shifts_labels", False))

    def _get_num_items_in_batch(self, batch_samples: list[Any], device: Any) -> Any:
        if self._exact is None:
            return super()._get_num_items_in_batch(batch_samples, device)  # type: ignore[misc]
        # Without it models and label smoothing take the mean of the items that they count themselves, which is exact.
        custom = self.compute_loss_func is not None  # type: ignore[attr-defined]
        return torch.tensor(sum(map(self.loss_items, batch_samples)), device=device) if custom else None

    def evaluation_loop(self, dataloader: Any, *options: Any, **named: Any) -> Any:
        """Evaluate as the Trainer does, and replace its loss by the exact one."""
        args = self.args  # type: ignore[attr-defined]
        if args.n_gpu > 1:
            raise ValueError(
                "DataParallel averages the losses of its parts, so that no exact loss can be computed: expected one "
                f"device per process (torchrun), got {args.n_gpu} in one"
            )
        outer = self._exact, self._fault, args.average_tokens_across_devices
        self._exact, self._fault = LossMean(), None
        # With it a loss is scaled for the sum of gradients over ranks, which an evaluation does not have.
        args.average_tokens_across_devices = False
        try:
            output = super().evaluation_loop(dataloader, *options, **named)  # type: ignore[misc]
            whole = self._exact.gather(self.accelerator)  # type: ignore[attr-defined]
            faults = [each for each in gather_objects(self._fault, self.accelerator) if each]  # type: ignore[attr-defined]
        finally:
            self._exact, self._fault, args.average_tokens_across_devices = outer
        if faults:
            raise ValueError(faults[0])
        name = f"{_prefix(options, named)}_loss"
        if name in output.metrics:
            output.metrics[name] = whole.compute().item()
        return output

    def prediction_step(
        self, model: Any, inputs: Any, prediction_loss_only: bool, ignore_keys: Any = None
    ) -> tuple[Any, Any, Any]:
        """Predict as the Trainer does, and add the loss with the number of its items."""
        if self._exact is None:
            return super().prediction_step(  # type: ignore[misc,no-any-return]
                model, inputs, prediction_loss_only, ignore_keys=ignore_keys
            )
        found = super().prediction_step(  # type: ignore[misc]
            model, dict(inputs), prediction_loss_only, ignore_keys=ignore_keys
        )
        if found[0] is None:
            return found  # type: ignore[no-any-return]
        rows = _rows(inputs)
        kept = self._rows_that_count(rows)
        if kept == rows:
            self._exact.update_mean(found[0], self.loss_items(inputs))
            self._check(model, inputs, found[0], ignore_keys)
        else:
            # Also on ranks where no row or every row counts: shards of a model have to run equally often.
            part = cut_rows(dict(inputs), rows, 0, max(abs(kept), 1))
            loss = super().prediction_step(model, part, True, ignore_keys=ignore_keys)[0]  # type: ignore[misc]
            self._exact.update_mean(loss, self.loss_items(part) if kept else 0)
        return found  # type: ignore[no-any-return]

    def _rows_that_count(self, rows: int) -> int:
        """Return the number of rows that are not padding; negative, where it is all rows, but not on every rank."""
        accelerator = self.accelerator  # type: ignore[attr-defined]
        state, world = accelerator.gradient_state, accelerator.num_processes
        if world == 1 or not state.end_of_dataloader or not accelerator.even_batches:
            return rows
        if getattr(state.active_dataloader, "_drop_last", False):
            return rows
        if state.remainder < 0:
            raise ValueError(
                "a data set of unknown length over several ranks: which rows pad the last batch is unknown; "
                "expected one with a length, or accelerator_config={'dispatch_batches': True}"
            )
        if not state.remainder or state.remainder == rows * world:
            return rows
        kept = min(max(state.remainder - accelerator.process_index * rows, 0), rows)
        return -rows if kept == rows else kept

    def _check(self, model: Any, inputs: Any, loss: Tensor, ignore_keys: Any) -> None:
        rows = _rows(inputs)
        if self._checked or self._fault or rows < 2 or not self.exact_loss_check:
            return
        parts = LossMean()
        for part in (cut_rows(dict(inputs), rows, 0, 1), cut_rows(dict(inputs), rows, 1, rows)):
            loss_of_part = super().prediction_step(model, part, True, ignore_keys=ignore_keys)[0]  # type: ignore[misc]
            parts.update_mean(loss_of_part, self.loss_items(part))
        whole, joined = float(loss), float(parts.compute())
        tolerance = 0.05 if loss.dtype in (torch.float16, torch.bfloat16) else self.exact_loss_tolerance
        if self.loss_items(inputs) and abs(whole - joined) > tolerance * max(abs(whole), abs(joined), 1e-6):
            self._fault = (
                f"the loss of {rows} rows, {whole:.6g}, is not the mean of those of its parts, {joined:.6g}, weighted "
                f"with {self.loss_items(inputs)} items: expected a loss that is a mean over items which are counted by "
                "loss_items(); override it for a loss of your own, or give compute_loss_func one that divides by "
                "num_items_in_batch"
            )
            # Over ranks it is raised after all have gathered: before, the others would wait for this rank.
            if self.accelerator.num_processes == 1:  # type: ignore[attr-defined]
                raise ValueError(self._fault)
            return
        self._checked = True


class ExactLossTrainer(ExactLossMixin, Trainer):  # type: ignore[misc]
    """A Trainer whose ``eval_loss`` does not depend on batches, padding and ranks; see `ExactLossMixin`."""


def items_of_loss(inputs: Mapping[str, Any], label_names: list[str], shifts: bool) -> int:
    """Return the number of items that the losses of transformers' models are the mean of.

    ValueError where it is unknown: for answers that begin or end outside the tokens, because starts and ends are
    averaged separately.
    """
    rows = _rows(inputs)
    if set(label_names) >= ANSWER_POSITIONS and set(inputs) >= ANSWER_POSITIONS:
        return _items_of_answers(inputs, rows)
    labels = inputs.get("shift_labels", inputs.get("labels"))
    if not isinstance(labels, Tensor) or labels.is_floating_point():
        return rows
    if shifts and labels.dim() > 1 and "shift_labels" not in inputs:
        labels = labels[..., 1:]
    return int((labels != IGNORED).sum())


def _items_of_answers(inputs: Mapping[str, Any], rows: int) -> int:
    tokens = next(value.shape[1] for value in inputs.values() if isinstance(value, Tensor) and value.dim() > 1)
    inside = [int((inputs[name] < tokens).sum()) for name in sorted(ANSWER_POSITIONS)]
    if inside != [rows, rows]:
        raise ValueError(
            f"start_positions and end_positions: expected them within the {tokens} tokens, got {rows - min(inside)} of "
            f"{rows} outside, which the loss leaves out of starts and ends separately; override loss_items()"
        )
    return rows


def _prefix(options: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    return str(named.get("metric_key_prefix", options[3] if len(options) > 3 else "eval"))


def _rows(inputs: Mapping[str, Any]) -> int:
    for name in ("labels", "input_ids", *inputs):
        value = inputs.get(name)
        if isinstance(value, Tensor) and value.dim():
            return len(value)
    raise ValueError(f"inputs: expected tensors with rows, got {sorted(map(str, inputs))}")
