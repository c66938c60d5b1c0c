"""accelerate within ranks that are there already: it finds its group as it finds that of a launcher."""

from __future__ import annotations

import os


def join_group() -> None:
    """Have accelerate take part in the ``torch.distributed`` group of this process, whatever it was part of before.

    What is made from here on, such as an `Accelerator`, is of this rank. The process is to end with its group: the
    variables that a launcher would set stay.
    """
    import torch.distributed as dist
    from accelerate.state import AcceleratorState, GradientState, PartialState

    rank = str(dist.get_rank())
    os.environ.update(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=str(dist.get_world_size()))
    # accelerate asks for them, though the group has met already.
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()
