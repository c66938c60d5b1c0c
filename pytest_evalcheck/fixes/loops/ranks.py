"""What every rank has, on every rank: torch.distributed, accelerate, one process, or a function of your own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch

Gather: TypeAlias = "Callable[[Any], Sequence[Any]]"
"""Takes what this rank has, gives what all ranks have, in rank order. Every rank has to call it equally often."""


def gather_function(ranks: Any = None) -> Gather:
    """Return how objects are gathered over these ranks.

    ``ranks`` is None for the default group of torch.distributed where there is one and for a single process
    otherwise, a process group, an ``accelerate.Accelerator``, or a `Gather` of your own. TypeError for anything else.
    """
    distributed = torch.distributed
    if ranks is None:
        started = distributed.is_available() and distributed.is_initialized()
        return partial(_of_group, None) if started else _alone
    if hasattr(ranks, "gather_for_metrics") and hasattr(ranks, "num_processes"):
        return _of_accelerate
    if distributed.is_available() and isinstance(ranks, distributed.ProcessGroup):
        return partial(_of_group, ranks)
    if callable(ranks):
        return ranks  # type: ignore[no-any-return]
    raise TypeError(
        "ranks: expected None, an accelerate.Accelerator, a torch.distributed.ProcessGroup or a function that takes "
        f"what this rank has and gives a list of what all have, got {type(ranks).__name__}"
    )


def gather_objects(mine: Any, ranks: Any = None) -> list[Any]:
    """Gather one object per rank, in rank order."""
    return list(gather_function(ranks)(mine))


def _alone(mine: Any) -> list[Any]:
    return [mine]


def _of_group(group: Any, mine: Any) -> list[Any]:
    found: list[Any] = [None] * torch.distributed.get_world_size(group)
    torch.distributed.all_gather_object(found, mine, group=group)
    return found


def _of_accelerate(mine: Any) -> list[Any]:
    from accelerate.utils import gather_object

    # A list, because it chains what it gathers.
    return list(gather_object([mine]))
