"""Composer: ``Trainer.eval`` with one evaluator or several, in micro-batches where asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from pytest_evalcheck.adapters.common import loader_order
from pytest_evalcheck.adapters.common.training_limits import STEPS, outcome
from pytest_evalcheck.kinds.loop.record import BATCH_SIZES, Evaluated, Loop

OPTIONS: dict[str, tuple[Any, ...]] = {
    "batch_size": BATCH_SIZES,
    "microbatch": (None, 1, 2, 3),
    "workers": (0, 2),
}
"""What may not change the numbers: the loader, and in which parts a batch goes through the model."""
LABEL = "drawn"


def record(trainer: Any) -> Loop:
    """The record of a `Trainer` of Composer, with all metrics of its model."""
    return loop(trainer)


def loop(trainer: Any, *, retries: bool = False, **fields: Any) -> Loop:
    """The record of a `Trainer`: it evaluates what is drawn, collated by the collate of the target's inputs.

    Records are the rows of what ``eval_forward`` gave, where that is a tensor with a row a sample; else there are none.
    It has no training: `Trainer.fit` ends for good, so that a target gives one with ``train=...`` (`training`). Name
    the module inside with ``model=...``: Composer calls the ``forward`` of its own, which no hook sees.

    Args:
        trainer: a `Trainer` of any model with metrics.
        retries: whether evaluators have automatic micro-batches, which Composer refuses on the CPU: it is set behind
            its back.
        fields: of `Loop`, beside or instead of what is known of a `Trainer`.
    """
    run = _Run(trainer, retries)
    plain = {"evaluators": run.evaluators, "options": OPTIONS, "model": trainer.state.model, "source": trainer}
    return Loop(evaluate=run.evaluate, retries=retries, **{**plain, **fields})


class _Run:
    def __init__(self, trainer: Any, retries: bool) -> None:
        self.trainer, self.retries = trainer, retries

    def evaluate(self, data: Any, **settings: Any) -> Evaluated:
        """The metrics of these samples, and records of them."""
        return self.evaluators({LABEL: data}, **settings)[LABEL]

    def evaluators(
        self, sets: Mapping[str, Any], order: Sequence[str] = (), microbatch: int | None = None, **loading: Any
    ) -> dict[str, Evaluated]:
        """Those of several data sets, in one run in this order."""
        from composer.core import Evaluator

        names = list(order or sets)
        evaluators = [
            Evaluator(label=name, dataloader=_loader(sets[name], **loading), device_eval_microbatch_size=microbatch)
            for name in names
        ]
        with self._automatic(evaluators) if self.retries else nullcontext(), _outputs(self.trainer) as outputs:
            self.trainer.eval(eval_dataloader=evaluators)
        records = loader_order.apart(self._rows(outputs), [len(sets[name]) for name in names])
        computed = self.trainer.state.eval_metrics
        numbers = [{key: one.compute().item() for key, one in computed[name].items()} for name in names]
        return dict(zip(names, map(Evaluated, numbers, records), strict=True))

    def _rows(self, outputs: Sequence[Any]) -> list[dict[str, Any]] | None:
        """The rows of all outputs; None where there are none, or where some were made again."""
        if self.retries or not outputs or not all(map(_has_rows, outputs)):
            return None
        return [{"output": row} for one in outputs for row in one.tolist()]

    @contextmanager
    def _automatic(self, evaluators: Sequence[Any]) -> Iterator[None]:
        """With micro-batches that are halved when memory runs out: what Composer sets before it checks for a GPU."""
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


def training(make: Callable[..., Any], seed: int = 0) -> Callable[[Any, Callable[[], None]], dict[str, Any]]:
    """What trains in a `Loop`; ``make(train_dataloader=, max_duration=, callbacks=, seed=)`` gives a `Trainer`."""

    def train(data: Any, between: Callable[[], None]) -> dict[str, Any]:
        from composer.core import Callback

        losses: list[float] = []

        class Between(Callback):  # type: ignore[misc]
            def batch_end(self, state: Any, logger: Any) -> None:
                del logger
                losses.append(float(state.loss.detach()))
                if len(losses) == STEPS // 2:
                    between()

        trainer = make(
            train_dataloader=_shuffled(data),
            max_duration=f"{STEPS}ba",
            callbacks=[Between()],
            seed=seed,
        )
        trainer.fit()
        return outcome(losses, trainer.state.model)

    return train


def _loader(data: Any, *, batch_size: int = 2, workers: int = 0) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(data, batch_size, num_workers=workers, collate_fn=data.collate)


def _shuffled(data: Any) -> Any:
    """Twice the samples, so that there are as many as full batches of two need."""
    from torch.utils.data import DataLoader

    return DataLoader(list(data) * 2, 2, shuffle=True, collate_fn=data.collate)


def _has_rows(value: Any) -> bool:
    return getattr(value, "ndim", 0) > 0 and hasattr(value, "tolist")


@contextmanager
def _outputs(trainer: Any) -> Iterator[list[Any]]:
    """What ``eval_forward`` gives, as it comes."""
    model = trainer._original_model
    seen: list[Any] = []
    plain = model.eval_forward

    def noting(*arguments: Any, **named: Any) -> Any:
        seen.append(plain(*arguments, **named))
        return seen[-1]

    model.eval_forward = noting
    try:
        yield seen
    finally:
        del model.eval_forward
