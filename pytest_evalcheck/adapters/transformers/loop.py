"""transformers: the ``evaluate`` or the ``predict`` of a `Trainer`, and its training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from pytest_evalcheck.adapters.accelerate.loop import join_group
from pytest_evalcheck.adapters.common.loops import (
    TRAINING_STEPS,
    loader_order,
    split_records,
    training_outcome,
    with_ids,
)
from pytest_evalcheck.kinds.loop.record import BATCH_SIZES, Evaluated, Loop

CLASSES = ("transformers.trainer.Trainer",)

OPTIONS: dict[str, tuple[Any, ...]] = {
    "batch_size": BATCH_SIZES,
    "accumulation": (None, 1, 2),
    "concatenated": (True, False),
    "iterable": (False, True),
    "workers": (0, 2),
    "pin_memory": (True, False),
}
"""Options that must not change the numbers: settings of an evaluation, and whether the data set has a length."""
IGNORED = -100

_SETTINGS = {
    "batch_size": "per_device_eval_batch_size",
    "accumulation": "eval_accumulation_steps",
    "concatenated": "eval_do_concat_batches",
    "workers": "dataloader_num_workers",
    "pin_memory": "dataloader_pin_memory",
}
_TIMINGS = ("_runtime", "_per_second", "_time", "epoch")


def record(trainer: Any) -> Loop:
    """The record of a `Trainer`, by its ``evaluate``."""
    return loop(trainer)


def loop(trainer: Any, method: Literal["evaluate", "predict"] = "evaluate", **fields: Any) -> Loop:
    """The record of a `Trainer`: it evaluates what is drawn, collated by the collate of the target's inputs.

    A record of a sample is its row of the predictions and of the labels without padding; its id is its index, in whose
    order ``predict`` returns them. ``evaluate`` passes predictions to ``compute_metrics`` alone: without that there are
    no records. The names of the numbers have no prefix, and timings are left out.

    Args:
        trainer: any `Trainer`; its data sets and its collator are replaced.
        method: which of its methods is the loop.
        fields: of `Loop`, added to those of a `Trainer` or instead of them; ``options={...}`` names fewer of `OPTIONS`,
            or any attributes of its arguments.
    """
    run = _Run(trainer, method)
    known = {"train": run.train, "model": trainer.model, "source": trainer, "options": OPTIONS, "on_rank": run.on_rank}
    known["scored_with"] = run.scored_with
    if method == "evaluate":
        known["evaluators"] = run.evaluators
    return Loop(evaluate=run.evaluate, **{**known, **fields})


@dataclass(frozen=True)
class _Run:
    trainer: Any
    method: str

    def evaluate(self, data: Any, batch_size: int = 2, iterable: bool = False, **settings: Any) -> Evaluated:
        """The numbers and records of these samples."""
        samples = data.stream() if iterable else data
        ids = loader_order(len(data), batch_size, iterable=iterable, workers=settings.get("workers", 0))
        settings["batch_size"] = batch_size
        with self._settings(data, **settings), _calling(self.trainer), self._outputs() as outputs:
            if self.method == "predict":
                output = self.trainer.predict(samples)
                outputs[:] = [(output.predictions, output.label_ids)]
                numbers = _numbers(output.metrics, "test_")
            else:
                numbers = _numbers(self.trainer.evaluate(samples), "eval_")
        rows = _rows(outputs)
        return Evaluated(numbers, None if rows is None else with_ids(rows, ids))

    def scored_with(self, function: Callable[..., Any], data: Any, batch_size: int = 2) -> Evaluated:
        """The same with a function as ``compute_metrics``."""
        trainer, own = self.trainer, self.trainer.compute_metrics
        trainer.compute_metrics = lambda output, **more: {"metric": function(output, **more)}
        try:
            return self.evaluate(data, batch_size)
        finally:
            trainer.compute_metrics = own

    def on_rank(self, data: Any, batch_size: int = 2) -> Evaluated:
        """The same on a rank of the ``torch.distributed`` group of this process; each rank reports all samples."""
        join_group()
        args = self.trainer.args
        vars(args).pop("_setup_devices", None)  # cached for one process
        _ = args.device  # cached again, which resets the state that an Accelerator would share
        self.trainer.create_accelerator_and_postprocess()
        return self.evaluate(data, batch_size)

    def evaluators(self, sets: Mapping[str, Any], order: Sequence[str] = (), **settings: Any) -> dict[str, Evaluated]:
        """Return those of several data sets, by name, as one call evaluates them in this order."""
        names = list(order or sets)
        with self._settings(sets[names[0]], **settings), _calling(self.trainer), self._outputs() as outputs:
            metrics = self.trainer.evaluate({name: sets[name] for name in names})
        records = split_records(_rows(outputs), [len(sets[name]) for name in names])
        numbers = [_numbers(metrics, f"eval_{name}_", strictly=True) for name in names]
        return dict(zip(names, map(Evaluated, numbers, records), strict=True))

    def train(self, data: Any, between: Callable[[], None]) -> dict[str, Any]:
        """The loss of every step and the parameters at the end; ``between`` is called where the Trainer evaluates."""
        from transformers import TrainerCallback

        losses: list[float] = []

        class HalfWay(TrainerCallback):  # type: ignore[misc]
            def on_step_end(self, _: Any, state: Any, control: Any, **__: Any) -> None:
                control.should_evaluate = state.global_step == TRAINING_STEPS // 2

            def on_log(self, *_: Any, logs: Any = None, **__: Any) -> None:
                if "loss" in (logs or {}):
                    losses.append(float(logs["loss"]))

        trainer = self.trainer
        trainer.train_dataset = data
        short = {"max_steps": TRAINING_STEPS, "per_device_train_batch_size": 2}
        settings = {**short, "logging_steps": 1, "save_strategy": "no"}
        with self._settings(data, **settings), _calling(trainer, HalfWay()), _instead_of_evaluate(trainer, between):
            trainer.train()
        return training_outcome(losses, trainer.model)

    @contextmanager
    def _settings(self, data: Any, **settings: Any) -> Iterator[None]:
        """With the collate of ``data`` and these arguments of the trainer."""
        trainer, args = self.trainer, self.trainer.args
        named = {_SETTINGS.get(name, name): value for name, value in settings.items()}
        unknown = [name for name in named if not hasattr(args, name)]
        if unknown:
            raise TypeError(f"{unknown[0]!r} is no option: expected one of {sorted(OPTIONS)}, or of TrainingArguments")
        before = {name: getattr(args, name) for name in named}, trainer.data_collator
        trainer.data_collator = data.collate
        vars(args).update(named)
        try:
            yield
        finally:
            vars(args).update(before[0])
            trainer.data_collator = before[1]

    @contextmanager
    def _outputs(self) -> Iterator[list[tuple[Any, Any]]]:
        """The predictions and labels that ``compute_metrics`` receives, as they come."""
        outputs: list[tuple[Any, Any]] = []
        trainer, compute = self.trainer, self.trainer.compute_metrics

        def recording(output: Any, *args: Any, **kwargs: Any) -> Any:
            outputs.append((output.predictions, output.label_ids))
            return compute(output, *args, **kwargs)

        trainer.compute_metrics = recording if compute is not None and self.method == "evaluate" else compute
        try:
            yield outputs
        finally:
            trainer.compute_metrics = compute


@contextmanager
def _calling(trainer: Any, *more: Any) -> Iterator[None]:
    """With these callbacks, and without those that print."""
    handler = trainer.callback_handler
    before = list(handler.callbacks)
    printers = {"PrinterCallback", "ProgressCallback", "NotebookProgressCallback"}
    handler.callbacks = [item for item in before if type(item).__name__ not in printers] + list(more)
    try:
        yield
    finally:
        handler.callbacks = before


@contextmanager
def _instead_of_evaluate(trainer: Any, between: Callable[[], None]) -> Iterator[None]:
    """While it trains, ``evaluate`` is replaced by ``between``, within which it is itself."""

    def called(*_: Any, **__: Any) -> dict[str, float]:
        del trainer.evaluate
        trainer.control.should_evaluate = False  # as `evaluate` does, which between() need not call
        try:
            between()
        finally:
            trainer.evaluate = called
        return {}

    trainer.evaluate = called
    try:
        yield
    finally:
        del trainer.evaluate


def _numbers(metrics: Mapping[str, Any], prefix: str, *, strictly: bool = False) -> dict[str, Any]:
    """The metrics by their own names; ``strictly`` only those with this prefix."""
    named = {name: value for name, value in metrics.items() if name.startswith(prefix) or not strictly}
    return {name.removeprefix(prefix): value for name, value in named.items() if not name.endswith(_TIMINGS)}


def _rows(outputs: Sequence[tuple[Any, Any]]) -> list[dict[str, Any]] | None:
    """The fields of every row, or None where there are no predictions."""
    parts = [part for predictions, labels in outputs for part in _parts(predictions, labels)]
    if not parts:
        return None
    return [_row(*row) for predictions, labels in parts for row in zip(predictions, labels, strict=True)]


def _parts(predictions: Any, labels: Any) -> list[tuple[Any, Any]]:
    """Arrays of predictions and labels: of all samples, or of every batch where they are not concatenated."""
    import numpy

    if predictions is None or labels is None:
        return []
    if isinstance(predictions, list):
        return [part for pair in zip(predictions, labels, strict=True) for part in _parts(*pair)]
    if isinstance(predictions, tuple):
        predictions = predictions[0]
    if isinstance(labels, tuple):
        labels = numpy.stack([_array(part) for part in labels], 1)
    return [(_array(predictions), _array(labels))]


def _array(values: Any) -> Any:
    """An array of values, which are a tensor on the device where metrics are fed batch by batch."""
    import numpy

    return numpy.asarray(values.cpu() if hasattr(values, "cpu") else values)


def _row(prediction: Any, label: Any) -> dict[str, Any]:
    """One row of both, without the positions whose label is ignored."""
    longer = prediction.ndim > 1 and len(prediction) > len(label)
    if label.ndim == 1 and (longer or prediction.shape[:1] == label.shape):
        counted = label != IGNORED
        prediction, label = prediction[: len(label)][counted], label[counted]
    return {"prediction": prediction.tolist(), "label": label.tolist()}
