"""Objects gathered from all ranks: by torch.distributed, accelerate, in one process, or by your own function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch

Gather: TypeAlias = "Callable[[Any], Sequence[Any]]"
"""Function of the object of this rank that returns those of all ranks, in rank order. Ranks call it equally often."""


def gather_function(ranks: Any = None) -> Gather:
    """Return the function that gathers objects over these ranks.

    ``ranks`` is None for the default group of torch.distributed where there is one and for a single process
    otherwise, a process group, an ``accelerate.Accelerator``, or your own `Gather`. TypeError for anything else.
    """
    distributed = torch.distributed
    if ranks is None:
        started = distributed.is_available() and distributed.is_initialized()
        return partial(_gather_group, None) if started else lambda mine: [mine]
    if hasattr(ranks, "gather_for_metrics") and hasattr(ranks, "num_processes"):
        return _gather_accelerate
    if distributed.is_available() and isinstance(ranks, distributed.ProcessGroup):
        return partial(_gather_group, ranks)
    if callable(ranks):
        return ranks  # type: ignore[no-any-return]
    raise TypeError(
        "ranks: expected None, an accelerate.Accelerator, a torch.distributed.ProcessGroup or a function that takes "
        f"what this rank has and gives a list of what all have, got {type(ranks).__name__}"
    )


def gather_objects(mine: Any, ranks: Any = None) -> list[Any]:
    """Gather one object per rank, in rank order."""
    return list(gather_function(ranks)(mine))


def _gather_group(group: Any, mine: Any) -> list[Any]:
    found: list[Any] = [None] * torch.distributed.get_world_size(group)
    torch.distributed.all_gather_object(found, mine, group=group)
    return found


def _gather_accelerate(mine: Any) -> list[Any]:
    from accelerate.utils import gather_object

    # In a list, because the gathered lists are concatenated.
    return list(gather_object([mine]))
