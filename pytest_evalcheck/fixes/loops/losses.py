"""A mean loss from a sum and a count, divided once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.fixes.accumulator_validation import Values, checked_peer, real
from pytest_evalcheck.fixes.double_double import WITHOUT_FLOAT64
from pytest_evalcheck.fixes.loops.ranks import gather_objects
from pytest_evalcheck.fixes.weighted_mean import WeightedMean


class LossMean:
    """The mean loss of all tokens or samples, for any batches (EC501): sums and counts, divided once.

    The sums are those of `WeightedMean` and do not round. With a NaN or an infinity the mean is one too (EC508); a
    batch in which nothing counts adds nothing.

    >>> loss = LossMean()
    >>> loss.update(torch.tensor([1.0, 1.0, 1.0, 9.0]), mask=torch.tensor([True, True, True, False]))
    >>> loss.update_mean(5.0, count=1)
    >>> loss.compute().item(), loss.count
    (2.0, 4.0)

    `sample_losses` gives the losses and the tokens of each sample.

    Symptom: the loss of a data set depends on the batch size, or on padding.

    Before::

        def evaluate(data, batch_size=2):
            model.eval()
            means = [losses(model, batch).mean() for batch in data.loader(batch_size)]
            return {"loss": float(torch.stack(means).mean())}

    After::

        from pytest_evalcheck.fixes.loops import LossMean

        def evaluate(data, batch_size=2):
            model.eval()
            mean = LossMean()
            for batch in data.loader(batch_size):
                mean.update(losses(model, batch))
            return {"loss": float(mean.compute())}

    Costs: a few additions for each loss.

    Target: ec.loop(inputs=es.tabular(features=2, classes=3)) with loop(model, evaluate)

    Shown by: EC501.
    """

    def __init__(self) -> None:
        self._mean = WeightedMean()
        self._count = 0.0

    @property
    def count(self) -> float:
        """The number of tokens or samples."""
        return self._count

    def update(self, losses: Values, mask: Tensor | None = None) -> None:
        """Add unreduced losses of any shape; those where ``mask`` (bool, of that shape) is False do not count."""
        values = real(losses, name="losses")
        if mask is not None:
            if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != values.shape:
                got = f"{mask.dtype} {tuple(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
                raise ValueError(
                    f"mask: expected a bool tensor of the shape {tuple(values.shape)} of losses, got {got}"
                )
            values = values[mask.to(values.device)]
        self._mean.update(values.reshape(-1))
        self._count += values.numel()

    def update_mean(self, mean: Values, count: Any) -> None:
        """Add the mean loss of a batch, one number, and the number of tokens or samples it is the mean of.

        ``count`` of 0 adds nothing: the mean of nothing is NaN. ValueError for a negative or infinite one.
        """
        value, number = real(mean, name="mean"), float(count)
        if value.numel() != 1:
            raise ValueError(f"mean: expected one number, got {tuple(value.shape)}; update() takes unreduced losses")
        if not 0 <= number < float("inf"):
            raise ValueError(f"count: expected the number of tokens or samples, 0 or more, got {count!r}")
        if number:
            self._mean.update(value.reshape(()), number)
            self._count += number

    def update_sum(self, total: Values, count: Any) -> None:
        """Add the summed loss of a batch, and the number of tokens or samples it is the sum of."""
        number = float(count)
        value = real(total, name="total").cpu().double()
        if number:
            self.update_mean(value / number, number)
        elif value.numel() != 1 or value.item() != 0:
            raise ValueError(f"total: expected a sum of nothing to be 0, got {value.tolist()} with a count of 0")

    def compute(self) -> Tensor:
        """Return the mean so far, a float64 tensor of shape (); NaN where nothing counted."""
        return self._mean.compute()

    def reset(self) -> None:
        """Forget every loss."""
        self._mean.reset()
        self._count = 0.0

    def merge(self, *others: LossMean) -> None:
        """Add the losses of other shards, which do not change."""
        for other in others:
            checked_peer(other, LossMean)
        for other in others:
            self._mean.merge(other._mean)
            self._count += other._count

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of sums and count, for `load_state_dict`."""
        return {**self._mean.state_dict(), "count": torch.tensor(self._count, dtype=torch.float64)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Load copies of what `state_dict` returned; a state that does not fit raises an error and changes nothing."""
        if not isinstance(state, Mapping) or "count" not in state:
            raise ValueError("state: expected what LossMean.state_dict() gave, got something without 'count'")
        self._mean.load_state_dict({name: word for name, word in state.items() if name != "count"})
        self._count = float(state["count"])

    def gather(self, ranks: Any = None) -> LossMean:
        """Return the mean over all ranks, on all of them; every rank calls this once. See `gather_function`."""
        whole = LossMean()
        for state in gather_objects(self.state_dict(), ranks):
            shard = LossMean()
            shard.load_state_dict(state)
            whole.merge(shard)
        return whole


def sample_losses(
    logits: Tensor,
    labels: Tensor,
    *,
    shift: bool = False,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Return the summed cross-entropy of each sample and the number of its tokens that count: float64 (n,), int64 (n,).

    ``logits`` are (n, ..., classes), ``labels`` integers (n, ...); with ``shift`` position t is scored by label t + 1.
    Half precision is widened to float32 first. The mean loss is the sum of the sums over the sum of the counts. They
    come on the device of the logits, or on the CPU if that device has no float64.
    ValueError where the shapes do not fit.
    """
    if labels.dtype.is_floating_point or labels.shape != logits.shape[:-1] or not labels.dim():
        raise ValueError(
            f"labels: expected integers of the shape {tuple(logits.shape[:-1])} of the logits without their classes, "
            f"got {labels.dtype} {tuple(labels.shape)}"
        )
    if shift:
        if labels.dim() < 2:
            raise ValueError(f"shift: expected labels of the shape (n, tokens), got {tuple(labels.shape)}")
        logits, labels = logits[:, :-1], labels[:, 1:]
    scores = logits if logits.dtype == torch.float64 else logits.float()
    flat = labels.reshape(-1).to(scores.device).long()
    losses = torch.nn.functional.cross_entropy(
        scores.reshape(-1, scores.shape[-1]),
        flat,
        ignore_index=ignore_index,
        reduction="none",
        label_smoothing=label_smoothing,
    )
    rows = len(labels)
    if losses.device.type in WITHOUT_FLOAT64:
        losses, flat = losses.cpu(), flat.cpu()
    sums = losses.reshape(rows, -1).sum(dim=1, dtype=torch.float64)
    return sums, (flat != ignore_index).reshape(rows, -1).sum(dim=1)
