"""Lightning: ``Trainer.validate`` or ``Trainer.test`` of a module, and a ``fit`` that validates half way."""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from pytest_evalcheck.adapters.common.loops import TRAINING_STEPS, loader_order, training_outcome, with_ids
from pytest_evalcheck.kinds.loop.ranks import share_of, with_ids_of_the_whole
from pytest_evalcheck.kinds.loop.record import BATCH_SIZES, Evaluated, Loop, LoopData

CLASSES = ("lightning.pytorch.core.module.LightningModule", "pytorch_lightning.core.module.LightningModule")

OPTIONS: dict[str, tuple[Any, ...]] = {
    "batch_size": BATCH_SIZES,
    "iterable": (False, True),
    "workers": (0, 2),
    "inference_mode": (True, False),
}
"""Options that must not change the numbers: of the loader, and how gradients are disabled."""
_ACCUMULATED = 2
"""The batches whose gradients a step of a training accumulates."""
BUFFERS = 3
"""A trainer takes any loader, and reads one batch ahead."""


def record(module: Any) -> Loop:
    """The record of a `LightningModule`, by the ``validate`` of a new `Trainer`."""
    return loop(module)


def loop(
    module: Any,
    method: Literal["validate", "test"] = "validate",
    trainer: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Loop:
    """The record of a module, which is evaluated by a new `Trainer` every time.

    The numbers are those that are logged. Records are the rows of the result of ``validation_step`` or ``test_step``,
    a tensor with a row per sample, or a mapping of such tensors; for any other result there are none. Several loaders
    are evaluated at once where the step takes a ``dataloader_idx``.

    Args:
        module: any `LightningModule`. It is trained where it has a ``training_step``. The `Trainer` has its device.
        method: which method of the `Trainer` is the loop.
        trainer: further arguments of the `Trainer`, such as ``precision``.
        fields: of `Loop`, added to those of a module or instead of them.
    """
    placed = {"accelerator": {"cuda": "gpu"}.get(module.device.type, module.device.type), "devices": 1}
    run = _Run(module, method, {**placed, **(trainer or {})})
    known: dict[str, Any] = {"options": OPTIONS, "model": module, "source": module, "scored_with": run.scored_with}
    known["buffers"], known["on_rank"] = BUFFERS, run.on_rank
    if method == "validate" and run.trains():
        known["train"] = run.train
    if run.takes_several():
        known["evaluators"] = run.evaluators
    return Loop(evaluate=run.evaluate, **{**known, **fields})


class _Run:
    def __init__(self, module: Any, method: str, options: Mapping[str, Any]) -> None:
        self.module, self.method, self.options = module, method, options
        self._fitting: Any = None

    def evaluate(self, data: Any, batch_size: int = 2, inference_mode: bool = True, **loading: Any) -> Evaluated:
        """The numbers that are logged of these samples, and records of them."""
        loader = data.loader(batch_size, **loading)
        result = self._within_fit(loader) if self._fitting is not None else self._run([loader], inference_mode)[0]
        if result.records is None:
            return result
        rows = [row for _, row in result.records]
        return Evaluated(result.numbers, with_ids(rows, loader_order(len(data), batch_size, **loading)))

    def on_rank(self, data: Any, batch_size: int = 2) -> Evaluated:
        """The result of this rank of a ``torch.distributed`` group, which evaluates its share of the samples.

        The samples are shared out here: the sampler of a `Trainer` repeats some of them, as its own warning says.
        """
        import torch.distributed as dist

        strategy = _lightning().strategies.DDPStrategy(cluster_environment=_group(), process_group_backend="gloo")
        over = {"devices": dist.get_world_size(), "strategy": strategy, "use_distributed_sampler": False}
        run = _Run(self.module, self.method, {**self.options, **over})
        result = with_ids_of_the_whole(run.evaluate(share_of(data), batch_size))
        assert result is not None
        return result

    def scored_with(self, function: Callable[..., Any], data: Any, batch_size: int = 2) -> Evaluated:
        """The same with a function that the step calls with its result, as steps call metrics."""
        name = {"validate": "validation_step", "test": "test_step"}[self.method]
        step = getattr(self.module, name)

        @functools.wraps(step)
        def scoring(*given: Any, **named: Any) -> Any:
            result = step(*given, **named)
            function(result)
            return result

        vars(self.module)[name] = scoring
        try:
            return self.evaluate(data, batch_size)
        finally:
            del vars(self.module)[name]

    def evaluators(self, sets: Mapping[str, Any], order: Sequence[str] = (), batch_size: int = 2) -> dict[str, Any]:
        """The same of several data sets, in one run over their loaders in this order."""
        names = list(order or sets)
        results = self._run([sets[name].loader(batch_size) for name in names], True)
        return dict(zip(names, results, strict=True))

    def _run(self, loaders: list[Any], inference_mode: bool) -> list[Evaluated]:
        recorder = _recorder(self.method, loaders)
        with _quiet():
            trainer = _trainer([recorder], inference_mode=inference_mode, **self.options)
            numbers = getattr(trainer, self.method)(self.module, loaders, verbose=False)
        if len(loaders) > 1:
            suffixes = [f"/dataloader_idx_{i}" for i in range(len(loaders))]
            pairs = zip(numbers, suffixes, strict=True)
            numbers = [{name.removesuffix(end): value for name, value in own.items()} for own, end in pairs]
        return list(map(Evaluated, numbers, recorder.records()))

    def _within_fit(self, loader: Any) -> Evaluated:
        """Validate as ``fit`` does between two steps, with this loader."""
        trainer = self._fitting
        recorder, validation = _recorder("validate", [loader]), trainer.fit_loop.epoch_loop.val_loop
        source, before = validation._data_source, validation._data_source.instance
        source.instance, validation._combined_loader = loader, None
        trainer.callbacks.append(recorder)
        logger = trainer._logger_connector
        first = getattr(logger, "_first_loop_iter", None)  # which releases before 2.1 lack
        trainer.validating = True
        try:
            validation.run()
        finally:
            trainer.training = True
            logger._first_loop_iter = first
            trainer.callbacks.remove(recorder)
            source.instance, validation._combined_loader = before, None  # which it sets up again
        numbers = {name: value.item() for name, value in trainer.callback_metrics.items()}
        logged = {name: value for name, value in numbers.items() if name in recorder.logged}
        return Evaluated(logged, recorder.records()[0])

    def takes_several(self) -> bool:
        """Return whether the step takes the index of the loader of a batch."""
        step = getattr(self.module, {"validate": "validation_step", "test": "test_step"}[self.method])
        return "dataloader_idx" in inspect.signature(step).parameters

    def trains(self) -> bool:
        """Return whether the module has a training of its own."""
        from lightning_utilities.core.overrides import is_overridden

        cls = next(base for base in type(self.module).__mro__ if base.__name__ == "LightningModule")
        return all(is_overridden(name, self.module, cls) for name in ("training_step", "configure_optimizers"))

    def train(self, data: Any, between: Callable[[], None]) -> dict[str, Any]:
        """The loss of every batch of ``fit`` and the parameters at the end.

        Each step accumulates the gradients of two batches, and ``between()`` is called after the first of them: what
        clears gradients there changes the outcome. A module that steps by itself has a batch for each step.
        """
        losses: list[float] = []
        batches = _ACCUMULATED if self.module.automatic_optimization else 1
        middle = TRAINING_STEPS // 2 * batches - (batches - 1)

        class Between(_callback()):  # type: ignore[misc]
            def on_train_batch_end(self, _trainer: Any, _module: Any, outputs: Any, _batch: Any, index: int) -> None:
                losses.append(float(outputs["loss"] if isinstance(outputs, Mapping) else outputs))
                if index + 1 == middle:
                    between()

        with _quiet():
            steps = {"max_steps": TRAINING_STEPS, "accumulate_grad_batches": batches}
            self._fitting = trainer = _trainer([Between()], limit_val_batches=1.0, **steps, **self.options)
            # The samples repeat until there are as many as the steps need.
            count = 2 * TRAINING_STEPS * batches
            loader = LoopData((list(data) * count)[:count], data.collate).loader(shuffle=True)
            try:
                trainer.fit(self.module, loader, val_dataloaders=data.loader())
            finally:
                self._fitting = None
        return training_outcome(losses, self.module)


def _group() -> Any:
    """The environment of a process of a ``torch.distributed`` group: the other processes exist already."""
    import torch.distributed as dist

    environments = importlib.import_module(f"{_lightning().__name__}.plugins.environments")

    class Group(environments.LightningEnvironment):  # type: ignore[misc,name-defined]
        creates_processes_externally = True

        def world_size(self) -> int:
            return int(dist.get_world_size())

        def global_rank(self) -> int:
            return int(dist.get_rank())

        local_rank = global_rank

    return Group()


def _callback() -> Any:
    """The class of callbacks of the installed Lightning, which has two names."""
    return _lightning().Callback


def _lightning() -> Any:
    import sys

    return sys.modules.get("lightning.pytorch") or sys.modules["pytorch_lightning"]


def _trainer(callbacks: list[Any], **options: Any) -> Any:
    silent = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    return _lightning().Trainer(callbacks=callbacks, **silent, **options)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without its advice about loaders, and its messages about accelerators."""
    import logging

    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "pytorch_lightning")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            advice = "does not have many workers|smaller than the logging interval|`IterableDataset`"
            warnings.filterwarnings("ignore", message=f".*({advice}).*")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _recorder(method: str, loaders: list[Any]) -> Any:
    """A callback that records the result of every step, and the names of the numbers that were logged."""
    stage = {"validate": "validation", "test": "test"}[method]

    class Recorder(_callback()):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rows: list[list[Any] | None] = [[] for _ in loaders]
            self.logged: set[str] = set()

        def _end(self, _trainer: Any, _module: Any, outputs: Any, _batch: Any, _index: int, loader: int = 0) -> None:
            rows, before = _rows(outputs), self.rows[loader]
            self.rows[loader] = None if rows is None or before is None else before + rows

        def _epoch_end(self, trainer: Any, _module: Any) -> None:
            self.logged = set(trainer._results.metrics(False)["callback"]) if trainer._results else set()

        def records(self) -> list[Any]:
            return [None if rows is None else list(enumerate(rows)) for rows in self.rows]

    setattr(Recorder, f"on_{stage}_batch_end", Recorder._end)
    setattr(Recorder, f"on_{stage}_epoch_end", Recorder._epoch_end)
    return Recorder()


def _rows(outputs: Any) -> list[dict[str, Any]] | None:
    """The rows of the tensors that a step returned, or None where it returned anything else."""
    import torch

    fields = dict(outputs) if isinstance(outputs, Mapping) else {"prediction": outputs}
    if not all(isinstance(value, torch.Tensor) and value.dim() for value in fields.values()):
        return None
    counts = {len(value) for value in fields.values()}
    if len(counts) != 1:
        return None
    return [{name: value[row].tolist() for name, value in fields.items()} for row in range(counts.pop())]
