"""The plain loop over a bare module: one pass, sums and counts, everything given back."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pytest_evalcheck.kinds.common.tensors import cast_floats
from pytest_evalcheck.kinds.loop.data import LoopData
from pytest_evalcheck.kinds.loop.results import Evaluated

Score = Callable[[Any, Any], Any]
"""``score(outputs, batch)`` gives a number a sample, as a tensor ``[rows]``, or ``(sums, counts)``, both ``[rows]``."""


@dataclass(frozen=True)
class PlainLoop:
    """A module and its scores, evaluated batch after batch."""

    model: Any
    scores: Mapping[str, Score]
    forward: Callable[[Any, Any], Any]
    """``forward(model, batch)`` gives the outputs."""

    def evaluate(self, data: LoopData, batch_size: int = 2, workers: int = 0, pin_memory: bool = False) -> Evaluated:
        """The mean of every score over all that counts, and what every sample adds to it."""
        import torch
        from torch.utils.data import DataLoader

        # With a generator of its own the loader draws no seed from the one that training uses.
        loader = DataLoader(
            data,
            batch_size=batch_size,
            num_workers=workers,
            pin_memory=pin_memory,
            collate_fn=data.collate,
            generator=torch.Generator(),
        )
        with lent(self.model):
            return self.summed(map(self.scored, loader))

    def exact(self, data: LoopData) -> Mapping[str, float]:
        """The same one sample at a time, in float64."""
        import torch

        double = PlainLoop(copy.deepcopy(self.model).double(), self.scores, self.forward)
        with lent(double.model):
            batches = (cast_floats(data.collate([row]), torch.float64) for row in data)
            return dict(double.summed(map(double.scored, batches)).numbers)

    def scored(self, batch: Any) -> dict[str, tuple[list[float], list[float]]]:
        """For each score the sums and the counts of the samples of a batch."""
        outputs = self.forward(self.model, batch)
        found = {}
        for name, score in self.scores.items():
            given = score(outputs, batch)
            sums, counts = given if isinstance(given, tuple) else (given, [1.0] * len(given))
            found[name] = ([float(one) for one in sums], [float(one) for one in counts])
        return found

    def summed(self, batches: Any) -> Evaluated:
        """All that batches add up to."""
        records: list[dict[str, float]] = []
        sums, counts = dict.fromkeys(self.scores, 0.0), dict.fromkeys(self.scores, 0.0)
        for found in batches:
            for name, (added, counted) in found.items():
                sums[name] += sum(added)
                counts[name] += sum(counted)
            columns = {name: [a / c if c else 0.0 for a, c in zip(*pair, strict=True)] for name, pair in found.items()}
            records += [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        numbers = {name: sums[name] / counts[name] if counts[name] else float("nan") for name in sums}
        return Evaluated(numbers, list(enumerate(records)))


@contextmanager
def lent(model: Any) -> Iterator[None]:
    """Every submodule evaluates, without gradients, and has its own mode again afterwards."""
    import torch

    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def call(model: Any, batch: Any) -> Any:
    """The outputs for a batch: of a mapping the model is given the fields that its ``forward`` names."""
    if not isinstance(batch, Mapping):
        return model(*batch)
    parameters = inspect.signature(model.forward).parameters
    every = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    return model(**{name: value for name, value in batch.items() if every or name in parameters})
