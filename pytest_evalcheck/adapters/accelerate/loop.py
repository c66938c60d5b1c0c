"""accelerate: the loop of its examples, ``gather_for_metrics`` after every batch of a loader that it prepared."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evalcheck.kinds.loop.record import BATCH_SIZES, Evaluated, Loop, evaluating

OPTIONS: dict[str, tuple[Any, ...]] = {"batch_size": BATCH_SIZES, "iterable": (False, True), "workers": (0, 2)}
"""Options that must not change the numbers."""

Step = Callable[[Any, Any], Mapping[str, Any]]
Finish = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def loop(create: Callable[[], Any], model: Any, step: Step, finish: Finish, **fields: Any) -> Loop:
    """The record of a loop around a model.

    Args:
        create: a function that returns an `Accelerator`, called once per rank: the loop prepares with it.
        model: a ``torch.nn.Module``.
        step: ``step(model, batch)`` returns tensors by name, each with a row per sample (or as many as there are
            beams).
        finish: from all gathered rows by name, joined into one tensor each, to numbers by name.
        fields: of `Loop`, added to these or instead of them.
    """
    run = _Run(create, model, step, finish)
    known = {"options": OPTIONS, "model": model, "on_rank": run.on_rank}
    return Loop(evaluate=run, **{**known, **fields})


def join_group() -> None:
    """Let accelerate use the ``torch.distributed`` group of this process, whatever it used before.

    An `Accelerator` that is created afterwards belongs to this rank. The process must end with its group: the
    environment variables that a launcher would set stay.
    """
    import torch.distributed as dist
    from accelerate.state import AcceleratorState, GradientState, PartialState

    rank = str(dist.get_rank())
    os.environ.update(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=str(dist.get_world_size()))
    # accelerate asks for them, though the group exists already.
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()


@dataclass(frozen=True)
class _Run:
    create: Callable[[], Any]
    model: Any
    step: Step
    finish: Finish

    def __call__(self, data: Any, batch_size: int = 2, iterable: bool = False, workers: int = 0) -> Evaluated:
        import torch
        from torch.utils.data import DataLoader

        accelerator, samples = self.create(), _WithIds(data)
        dataset = data.stream(ids=True) if iterable else samples
        loader = DataLoader(dataset, batch_size, num_workers=workers, collate_fn=samples.collate)
        model, loader = accelerator.prepare(self.model, loader)
        gathered: list[Any] = []
        with evaluating(self.model):
            for ids, batch in loader:
                gathered.append(accelerator.gather_for_metrics({"ids": ids, **self.step(model, batch)}))
        rows = {name: torch.cat([tensors[name] for tensors in gathered]) for name in gathered[0]}
        ids = rows.pop("ids").tolist()
        # Several answers per sample cannot be assigned to samples: only fields with a row each become records.
        fields = {name: tensor.tolist() for name, tensor in rows.items() if len(tensor) == len(ids)}
        records = [(i, {name: values[row] for name, values in fields.items()}) for row, i in enumerate(ids)]
        return Evaluated(self.finish(rows), records)

    def on_rank(self, data: Any, batch_size: int = 2) -> Evaluated:
        """The result of this rank of a ``torch.distributed`` group."""
        join_group()
        return self(data, batch_size)


@dataclass(frozen=True)
class _WithIds:
    """A data set of ``(id, sample)``."""

    data: Any

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        return index, self.data[index]

    def collate(self, rows: list[Any]) -> tuple[Any, Any]:
        """The ids of some samples, and their batch."""
        import torch

        return torch.tensor([i for i, _ in rows]), self.data.collate([sample for _, sample in rows])
