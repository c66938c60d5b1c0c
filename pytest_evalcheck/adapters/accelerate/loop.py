"""accelerate: the loop of its examples, ``gather_for_metrics`` after every batch of a loader that it prepared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evalcheck.adapters.accelerate.ranks import join_group
from pytest_evalcheck.kinds.loop.record import BATCH_SIZES, Evaluated, Loop, evaluating

OPTIONS: dict[str, tuple[Any, ...]] = {
    "batch_size": BATCH_SIZES,
    "iterable": (False, True),
    "workers": (0, 2),
}
"""What may not change the numbers."""

Step = Callable[[Any, Any], Mapping[str, Any]]
Finish = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def loop(make: Callable[[], Any], model: Any, step: Step, finish: Finish, **fields: Any) -> Loop:
    """The record of a loop around a model.

    Args:
        make: a function that gives an `Accelerator`, called once a rank: it is the one that the loop prepares with.
        model: a ``torch.nn.Module``.
        step: ``step(model, batch)`` gives tensors by name, each with a row a sample (or as many as there are beams).
        finish: from all gathered rows by name, joined into one tensor each, to numbers by name.
        fields: of `Loop`, beside or instead of these.
    """
    run = _Run(make, model, step, finish)
    plain = {"options": OPTIONS, "model": model, "on_rank": run.on_rank}
    return Loop(evaluate=run, **{**plain, **fields})


@dataclass(frozen=True)
class _Run:
    make: Callable[[], Any]
    model: Any
    step: Step
    finish: Finish

    def __call__(self, data: Any, batch_size: int = 2, iterable: bool = False, workers: int = 0) -> Evaluated:
        import torch
        from torch.utils.data import DataLoader

        accelerator = self.make()
        source = _Numbered(data.stream(ids=True) if iterable else data, data.collate, iterable)
        samples = source.items if iterable else source
        loader = DataLoader(samples, batch_size, num_workers=workers, collate_fn=source.collate)
        model, loader = accelerator.prepare(self.model, loader)
        gathered: list[Any] = []
        with evaluating(self.model):
            for ids, batch in loader:
                gathered.append(accelerator.gather_for_metrics({"ids": ids, **self.step(model, batch)}))
        rows = {name: torch.cat([one[name] for one in gathered]) for name in gathered[0]}
        ids = rows.pop("ids").tolist()
        return Evaluated(self.finish(rows), _records(ids, rows))

    def on_rank(self, data: Any, batch_size: int = 2) -> Evaluated:
        """What this rank of a ``torch.distributed`` group reports."""
        join_group()
        return self(data, batch_size)


@dataclass(frozen=True)
class _Numbered:
    """Samples with their ids, and the collate of both."""

    items: Any
    rows: Callable[[list[Any]], Any]
    given: bool

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: int) -> Any:
        return place, self.items[place]

    def collate(self, numbered: list[Any]) -> tuple[Any, Any]:
        """The ids of some samples, and their batch."""
        import torch

        return torch.tensor([one for one, _ in numbered]), self.rows([sample for _, sample in numbered])


def _records(ids: list[int], rows: Mapping[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """The ids with those fields that have a row each: several answers a sample are not told apart."""
    fields = {name: each.tolist() for name, each in rows.items() if len(each) == len(ids)}
    return [(one, {name: each[place] for name, each in fields.items()}) for place, one in enumerate(ids)]
