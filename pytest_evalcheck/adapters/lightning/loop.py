"""Lightning: ``Trainer.validate`` or ``Trainer.test`` of a module, and a ``fit`` that validates half way."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from pytest_evalcheck.adapters.common import loader_order
from pytest_evalcheck.adapters.common.training_limits import STEPS, outcome
from pytest_evalcheck.kinds.loop.record import BATCH_SIZES, Evaluated, Loop

OPTIONS: dict[str, tuple[Any, ...]] = {
    "batch_size": BATCH_SIZES,
    "iterable": (False, True),
    "workers": (0, 2),
    "inference_mode": (True, False),
}
"""What may not change the numbers: the loader, and what gradients are turned off with."""


def record(module: Any) -> Loop:
    """The record of a `LightningModule`, by the ``validate`` of a new `Trainer`."""
    return loop(module)


def loop(module: Any, way: Literal["validate", "test"] = "validate", **fields: Any) -> Loop:
    """The record of a module, which is evaluated by a new `Trainer` every time.

    The numbers are those that are logged. Records are the rows of what ``validation_step`` or ``test_step`` returns,
    as a tensor with a row a sample, or a mapping of such tensors; where it returns anything else there are none.
    Several loaders are evaluated at once where the step takes a ``dataloader_idx``.

    Args:
        module: any `LightningModule`. It is trained where it has a ``training_step``.
        way: which method of the `Trainer` is the loop.
        fields: of `Loop`, beside or instead of what is known of a module.
    """
    run = _Run(module, way)
    trains = run.trains() and way == "validate"
    known: dict[str, Any] = {"train": run.train} if trains else {}
    if run.takes_several():
        known["evaluators"] = run.evaluators
    plain = {"options": OPTIONS, "model": module, "source": module, **known}
    return Loop(evaluate=run.evaluate, **{**plain, **fields})


class _Run:
    def __init__(self, module: Any, way: str) -> None:
        self.module, self.way = module, way
        self._fitting: Any = None

    def evaluate(self, data: Any, batch_size: int = 2, inference_mode: bool = True, **loading: Any) -> Evaluated:
        """The numbers that are logged of these samples, and records of them."""
        loader = _loader(data, batch_size, **loading)
        found = self._within(loader) if self._fitting is not None else self._run([loader], inference_mode)[0]
        rows = None if found.records is None else [row for _, row in found.records]
        places = loader_order.order(len(data), batch_size, **loading)
        return found if rows is None else Evaluated(found.numbers, loader_order.placed(rows, places))

    def evaluators(self, sets: Mapping[str, Any], order: Sequence[str] = (), batch_size: int = 2) -> dict[str, Any]:
        """The same of several data sets, in one run over their loaders in this order."""
        names = list(order or sets)
        found = self._run([_loader(sets[name], batch_size) for name in names], True)
        return dict(zip(names, found, strict=True))

    def _run(self, loaders: list[Any], inference_mode: bool) -> list[Evaluated]:
        noted = _noted(self.way, loaders)
        with _quiet():
            trainer = _trainer([noted], inference_mode=inference_mode)
            logged = getattr(trainer, self.way)(self.module, loaders, verbose=False)
        plain = [{_own(name, place): value for name, value in one.items()} for place, one in enumerate(logged)]
        numbers = plain if len(loaders) > 1 else logged
        return [Evaluated(*one) for one in zip(numbers, noted.records(), strict=True)]

    def _within(self, loader: Any) -> Evaluated:
        """As ``fit`` validates between two steps, with this loader."""
        trainer = self._fitting
        noted, validation = _noted("validate", [loader]), trainer.fit_loop.epoch_loop.val_loop
        source, before = validation._data_source, validation._data_source.instance
        source.instance, validation._combined_loader = loader, None
        trainer.callbacks.append(noted)
        first = trainer._logger_connector._first_loop_iter
        trainer.validating = True
        try:
            validation.run()
        finally:
            trainer.training = True
            trainer._logger_connector._first_loop_iter = first
            trainer.callbacks.remove(noted)
            source.instance, validation._combined_loader = before, None  # which it sets up anew
        numbers = {name: value.item() for name, value in trainer.callback_metrics.items()}
        return Evaluated({name: value for name, value in numbers.items() if name in noted.logged}, noted.records()[0])

    def takes_several(self) -> bool:
        """Whether the step is told from which of several loaders a batch is."""
        step = getattr(self.module, {"validate": "validation_step", "test": "test_step"}[self.way])
        return "dataloader_idx" in inspect.signature(step).parameters

    def trains(self) -> bool:
        """Whether the module has a training of its own."""
        from lightning_utilities.core.overrides import is_overridden

        cls = next(each for each in type(self.module).__mro__ if each.__name__ == "LightningModule")
        return all(is_overridden(name, self.module, cls) for name in ("training_step", "configure_optimizers"))

    def train(self, data: Any, between: Callable[[], None]) -> dict[str, Any]:
        """The loss of every step and the parameters at the end, as ``fit`` makes them."""
        losses: list[float] = []

        class Between(_callback()):  # type: ignore[misc]
            def on_train_batch_end(self, _trainer: Any, _module: Any, outputs: Any, _batch: Any, place: int) -> None:
                losses.append(float(outputs["loss"] if isinstance(outputs, Mapping) else outputs))
                if place + 1 == STEPS // 2:
                    between()

        with _quiet():
            self._fitting = trainer = _trainer([Between()], max_steps=STEPS, limit_val_batches=1.0)
            loader = _loader(_Repeated(data, 2 * STEPS), 2, shuffle=True)
            try:
                trainer.fit(self.module, loader, val_dataloaders=_loader(data, 2))
            finally:
                self._fitting = None
        return outcome(losses, self.module)


class _Repeated:
    """The samples of a data set again and again, so that there are as many."""

    def __init__(self, data: Any, count: int) -> None:
        self._data, self._count, self.collate = data, count, data.collate

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int) -> Any:
        if not 0 <= place < self._count:
            raise IndexError(place)
        return self._data[place % len(self._data)]


def _loader(data: Any, batch_size: int, *, iterable: bool = False, workers: int = 0, shuffle: bool = False) -> Any:
    from torch.utils.data import DataLoader

    source = data.stream() if iterable else data
    return DataLoader(source, batch_size, shuffle=shuffle, num_workers=workers, collate_fn=data.collate)


def _callback() -> Any:
    """The class of callbacks of the Lightning that is there, which has two names."""
    return _lightning().Callback


def _lightning() -> Any:
    import sys

    return sys.modules.get("lightning.pytorch") or sys.modules["pytorch_lightning"]


def _trainer(callbacks: list[Any], **options: Any) -> Any:
    silent = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    return _lightning().Trainer(accelerator="cpu", devices=1, callbacks=callbacks, **silent, **options)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without advice about loaders, and notes about accelerators."""
    import logging

    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "pytorch_lightning")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for text in (
                ".*does not have many workers.*",
                ".*smaller than the logging interval.*",
                ".*`IterableDataset`.*",
            ):
                warnings.filterwarnings("ignore", message=text)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _noted(way: str, loaders: list[Any]) -> Any:
    """A callback that keeps what every step returned, and which numbers were logged."""
    stage = {"validate": "validation", "test": "test"}[way]

    class Noted(_callback()):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rows: list[list[Any] | None] = [[] for _ in loaders]
            self.logged: set[str] = set()

        def _end(self, _trainer: Any, _module: Any, outputs: Any, _batch: Any, _place: int, loader: int = 0) -> None:
            rows, before = _rows(outputs), self.rows[loader]
            self.rows[loader] = None if rows is None or before is None else before + rows

        def _epoch_end(self, trainer: Any, _module: Any) -> None:
            self.logged = set(trainer._results.metrics(False)["callback"]) if trainer._results else set()

        def records(self) -> list[Any]:
            return [None if rows is None else list(enumerate(rows)) for rows in self.rows]

    setattr(Noted, f"on_{stage}_batch_end", Noted._end)
    setattr(Noted, f"on_{stage}_epoch_end", Noted._epoch_end)
    return Noted()


def _rows(outputs: Any) -> list[dict[str, Any]] | None:
    """The rows of the tensors that a step returned, or None where it returned no such thing."""
    import torch

    fields = dict(outputs) if isinstance(outputs, Mapping) else {"prediction": outputs}
    if not all(isinstance(each, torch.Tensor) and each.dim() for each in fields.values()):
        return None
    counts = {len(each) for each in fields.values()}
    if len(counts) != 1:
        return None
    return [{name: each[row].tolist() for name, each in fields.items()} for row in range(counts.pop())]


def _own(name: str, place: int) -> str:
    return name.removesuffix(f"/dataloader_idx_{place}")
