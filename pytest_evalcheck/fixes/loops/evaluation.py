"""An evaluation with all of it: lent model, ids, exactly once over ranks, sums and counts, retries that count once."""

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
    """What a step found for the n samples of a batch.

    ``ids`` are n; ``losses`` are the summed losses of the samples (n,), and ``items`` how many tokens each is the sum
    of (n,), or None for one each, which is what `sample_losses` gives; ``fields`` are further rows to join.
    """

    ids: Any
    losses: Tensor | None = None
    items: Tensor | None = None
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass
class Evaluation:
    """The loss over all samples, each once (None where steps gave none), and the rows in the order of the data set."""

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
    """Evaluate a model that is lent for it, every sample exactly once, over batches, shards and retries.

    ``step(model, batch)`` gives a `StepResult`; it may be called with parts of a batch, see `retry_in_parts`. ``order``,
    ``ranks`` and ``fixed`` are those of `PredictionsById.gather`, ``seed`` that of `evaluating`; over ranks every rank calls this once
    and gets the same. Raises what these raise, and TypeError for a step that gives something else.
    """
    rows = PredictionsById()
    generators = [getattr(batches, "generator", None), getattr(getattr(batches, "sampler", None), "generator", None)]
    named = [each for each in generators if isinstance(each, torch.Generator)]
    with evaluating(model, seed=seed, generators=named):
        for batch in batches:
            for found in retry_in_parts(partial(step, model), batch, on=retry_on):
                _kept(rows, found)
    joined = rows.gather(order, ranks=ranks, fixed=fixed)
    public = JoinedPredictions(joined.ids, {name: joined[name] for name in joined if name[0] != "_"}, joined.dropped)
    if "_losses" not in joined:
        return Evaluation(None, len(joined.ids), public)
    total, items = CompensatedSum(), CompensatedSum()
    total.update(joined["_losses"])
    items.update(joined["_items"])
    count = items.compute()
    return Evaluation((total.compute() / count).item() if count else float("nan"), count.item(), public)


def _kept(rows: PredictionsById, found: Any) -> None:
    if not isinstance(found, StepResult) or not isinstance(found.fields, Mapping):
        raise TypeError(f"step: expected it to give a StepResult, got {type(found).__name__}")
    if private := [name for name in found.fields if name.startswith("_")]:
        raise ValueError(f"fields: expected names without a leading underscore, got {private[0]!r}")
    if found.losses is None:
        rows.add(found.ids, _seen=[None] * len(found.ids), **found.fields)
        return
    losses = found.losses.detach().double()
    items = torch.ones(losses.shape, dtype=torch.int64) if found.items is None else found.items
    if losses.dim() != 1 or items.shape != losses.shape:
        raise ValueError(
            f"losses and items: expected one number a sample, of shape (n,), got {tuple(losses.shape)} and "
            f"{tuple(items.shape)}; sample_losses() gives such"
        )
    rows.add(found.ids, _losses=losses, _items=items, **found.fields)
