"""Composer: ``Trainer.eval`` with one evaluator or several, in micro-batches where asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from pytest_evalcheck.adapters.common.loops import TRAINING_STEPS, split_records, training_outcome
from pytest_evalcheck.kinds.loop.record import BATCH_SIZES, Evaluated, Loop

CLASSES = ("composer.trainer.trainer.Trainer",)

OPTIONS: dict[str, tuple[Any, ...]] = {
    "batch_size": BATCH_SIZES,
    "microbatch": (None, 1, 2, 3),
    "workers": (0, 2),
}
"""Options that must not change the numbers: of the loader, and the size of the parts of a batch."""
LABEL = "drawn"


def record(trainer: Any) -> Loop:
    """The record of a `Trainer` of Composer, with all metrics of its model."""
    return loop(trainer)


def loop(trainer: Any, *, retries: bool = False, **fields: Any) -> Loop:
    """The record of a `Trainer`: it evaluates what is drawn, collated by the collate of the target's inputs.

    Records are the rows of what ``eval_forward`` returned, where that is a tensor with a row per sample; else there are
    none. It has no training: `Trainer.fit` cannot continue after its end, so a target passes ``train=...``
    (`training`). Name the module inside with ``model=...``: Composer calls its own ``forward``, which no hook sees.

    Args:
        trainer: a `Trainer` of any model with metrics.
        retries: whether evaluators have automatic micro-batches, which Composer refuses on the CPU: the adapter sets
            them past that check.
        fields: of `Loop`, added to those of a `Trainer` or instead of them.
    """
    run = _Run(trainer, retries)
    known = {
        "evaluators": run.evaluators,
        "options": OPTIONS,
        "model": trainer.state.model,
        "resume": trainer.state.model.train,  # with it `Trainer.fit` begins, whatever the modes were
        "source": trainer,
    }
    return Loop(evaluate=run.evaluate, retries=retries, **{**known, **fields})


class _Run:
    def __init__(self, trainer: Any, retries: bool) -> None:
        self.trainer, self.retries = trainer, retries

    def evaluate(self, data: Any, **settings: Any) -> Evaluated:
        """The metrics of these samples, and records of them."""
        return self.evaluators({LABEL: data}, **settings)[LABEL]

    def evaluators(
        self, sets: Mapping[str, Any], order: Sequence[str] = (), microbatch: int | None = None, **loading: Any
    ) -> dict[str, Evaluated]:
        """Return those of several data sets, in one run in this order."""
        from composer.core import Evaluator

        names = list(order or sets)
        evaluators = [
            Evaluator(label=name, dataloader=_loader(sets[name], **loading), device_eval_microbatch_size=microbatch)
            for name in names
        ]
        with self._automatic(evaluators) if self.retries else nullcontext(), _outputs(self.trainer) as outputs:
            self.trainer.eval(eval_dataloader=evaluators)
        records = split_records(self._rows(outputs), [len(sets[name]) for name in names])
        computed = self.trainer.state.eval_metrics
        numbers = [{key: metric.compute().item() for key, metric in computed[name].items()} for name in names]
        return dict(zip(names, map(Evaluated, numbers, records), strict=True))

    def _rows(self, outputs: Sequence[Any]) -> list[dict[str, Any]] | None:
        """The rows of all outputs; None where there are none, or where some may be repeated."""
        if self.retries or not outputs or not all(getattr(o, "ndim", 0) > 0 and hasattr(o, "tolist") for o in outputs):
            return None
        return [{"output": row} for output in outputs for row in output.tolist()]

    @contextmanager
    def _automatic(self, evaluators: Sequence[Any]) -> Iterator[None]:
        """With micro-batches that are halved when memory runs out, as Composer sets before it checks for a GPU."""
        from composer.core import Callback

        class Automatic(Callback):  # type: ignore[misc]
            def eval_start(self, state: Any, logger: Any) -> None:
                del state, logger
                for evaluator in evaluators:
                    evaluator.auto_microbatching = True

        callback = Automatic()
        self.trainer.state.callbacks.append(callback)
        try:
            yield
        finally:
            self.trainer.state.callbacks.remove(callback)


def training(create: Callable[..., Any], seed: int = 0) -> Callable[[Any, Callable[[], None]], dict[str, Any]]:
    """``train`` of a `Loop`; ``create(train_dataloader=, max_duration=, callbacks=, seed=)`` returns a `Trainer`."""

    def train(data: Any, between: Callable[[], None]) -> dict[str, Any]:
        from composer.core import Callback
        from torch.utils.data import DataLoader

        losses: list[float] = []

        class Between(Callback):  # type: ignore[misc]
            def batch_end(self, state: Any, logger: Any) -> None:
                del logger
                losses.append(float(state.loss.detach()))
                if len(losses) == TRAINING_STEPS // 2:
                    between()

        # Every sample twice, so that there are as many as full batches of two need.
        loader = DataLoader(list(data) * 2, 2, shuffle=True, collate_fn=data.collate)
        duration = f"{TRAINING_STEPS}ba"
        trainer = create(train_dataloader=loader, max_duration=duration, callbacks=[Between()], seed=seed)
        trainer.fit()
        return training_outcome(losses, trainer.state.model)

    return train


def _loader(data: Any, *, batch_size: int = 2, workers: int = 0) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(data, batch_size, num_workers=workers, collate_fn=data.collate)


@contextmanager
def _outputs(trainer: Any) -> Iterator[list[Any]]:
    """The outputs of ``eval_forward``, as they come."""
    model = trainer._original_model
    outputs: list[Any] = []
    forward = model.eval_forward

    def recording(*args: Any, **kwargs: Any) -> Any:
        outputs.append(forward(*args, **kwargs))
        return outputs[-1]

    model.eval_forward = recording
    try:
        yield outputs
    finally:
        del model.eval_forward
