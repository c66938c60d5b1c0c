"""An evaluation with all parts: state restored, ids, every sample once over ranks, sums and counts, safe retries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from pytest_evalcheck.fixes.compensated_sum import CompensatedSum
from pytest_evalcheck.fixes.eval_mode import evaluating as evaluating
from pytest_evalcheck.fixes.loops.oom_retry import Errors, retry_in_parts
from pytest_evalcheck.fixes.loops.prediction_join import JoinedPredictions, PredictionsById


@dataclass
class StepResult:
    """The result of a step for the n samples of a batch.

    ``ids`` are n; ``losses`` are the summed losses of the samples (n,), and ``items`` the number of tokens in each sum
    (n,), or None for one each, as `sample_losses` returns them; ``fields`` are further rows to join.
    """

    ids: Any
    losses: Tensor | None = None
    items: Tensor | None = None
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass
class Evaluation:
    """The mean loss over all samples (None where steps have none), and the rows in the order of the data set."""

    loss: float | None
    items: float
    rows: JoinedPredictions


def evaluate(
    model: nn.Module,
    batches: Iterable[Any],
    step: Callable[[nn.Module, Any], StepResult],
    *,
    order: int | Iterable[Any] | None,
    ranks: Any = None,
    fixed: Iterable[str] = (),
    seed: int | None = None,
    retry_on: type[BaseException] | Errors = torch.OutOfMemoryError,
) -> Evaluation:
    """Evaluate a model, with every sample exactly once over batches, shards and retries.

    ``step(model, batch)`` returns a `StepResult`; it may be called with parts of a batch, see `retry_in_parts`.
    ``order``, ``ranks`` and ``fixed`` are those of `PredictionsById.gather`, ``seed`` that of `evaluating`; every rank
    calls this once and gets the same result. Raises the errors of these, and TypeError for another result of ``step``.

    Symptom: a whole loop of your own: its numbers depend on batches and ranks, and training goes on in another state.

    Before::

        def evaluated(data, batch_size=2):
            model.eval()
            means = [losses(model, batch).mean() for batch in loader(data, batch_size)]
            model.train()
            return {"loss": float(torch.stack(means).mean())}

    After::

        from pytest_evalcheck.fixes.loops import StepResult, evaluate, sample_losses

        def step(model, batch):
            return StepResult(batch["ids"], *sample_losses(model(batch["x"]), batch["labels"]))

        def evaluated(data, batch_size=2):
            return {"loss": evaluate(model, loader(data, batch_size), step, order=len(data)).loss}

    Costs: those of `evaluating`, `PredictionsById` and `retry_in_parts` together.

    Target: ec.loop(inputs=es.tabular(features=2, classes=3)) with loop(model, evaluated)

    Shown by: EC501, EC505.
    """
    rows = PredictionsById()
    generators = [getattr(batches, "generator", None), getattr(getattr(batches, "sampler", None), "generator", None)]
    named = [each for each in generators if isinstance(each, torch.Generator)]
    with evaluating(model, seed=seed, generators=named):
        for batch in batches:
            for result in retry_in_parts(partial(step, model), batch, on=retry_on):
                _add(rows, result)
    joined = rows.gather(order, ranks=ranks, fixed=fixed)
    public = JoinedPredictions(joined.ids, {name: joined[name] for name in joined if name[0] != "_"}, joined.dropped)
    if "_losses" not in joined:
        return Evaluation(None, len(joined.ids), public)
    total, items = CompensatedSum(), CompensatedSum()
    total.update(joined["_losses"])
    items.update(joined["_items"])
    count = items.compute()
    return Evaluation((total.compute() / count).item() if count else float("nan"), count.item(), public)


def _add(rows: PredictionsById, result: Any) -> None:
    if not isinstance(result, StepResult) or not isinstance(result.fields, Mapping):
        raise TypeError(f"step: expected it to return a StepResult, got {type(result).__name__}")
    if private := [name for name in result.fields if name.startswith("_")]:
        raise ValueError(f"fields: expected names without a leading underscore, got {private[0]!r}")
    if result.losses is None:
        rows.add(result.ids, _seen=[None] * len(result.ids), **result.fields)
        return
    losses = result.losses.detach().double()
    items = torch.ones(losses.shape, dtype=torch.int64) if result.items is None else result.items
    if losses.dim() != 1 or items.shape != losses.shape:
        raise ValueError(
            f"losses and items: expected one number per sample, of shape (n,), got {tuple(losses.shape)} and "
            f"{tuple(items.shape)}; sample_losses() returns such"
        )
    rows.add(result.ids, _losses=losses, _items=items, **result.fields)
