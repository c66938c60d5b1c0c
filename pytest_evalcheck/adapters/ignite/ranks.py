"""ignite: ranks of one process, for the collective calls of `ignite.distributed`, by which its metrics synchronise."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

from pytest_evalcheck.kinds.common.thread_ranks import AllGather, RankMismatch, on_ranks
from pytest_evalcheck.kinds.metric.record import Metric


def synchronise(ranks: Sequence[Metric]) -> Any:
    """Return the value of compute() on rank 0 when every rank computes, with the synchronisation of ignite."""
    gather, own = AllGather(len(ranks)), threading.local()

    def on_rank(rank: int) -> Callable[[], Any]:
        def compute() -> Any:
            own.rank = rank
            return ranks[rank].compute()

        return compute

    with _model(_ranks_of_threads(gather, own, len(ranks))):
        return on_ranks([on_rank(rank) for rank in range(len(ranks))], gather)


@contextmanager
def _model(model: Any) -> Iterator[None]:
    from ignite.distributed import utils

    before = utils._model, utils._need_to_sync
    utils._model, utils._need_to_sync = model, False
    try:
        yield
    finally:
        utils._model, utils._need_to_sync = before


def _ranks_of_threads(gather: AllGather, own: threading.local, world: int) -> Any:
    """Return a computation model, the public base class for other backends, whose ranks are threads."""
    import torch
    from ignite.distributed.comp_models.base import ComputationModel

    operations: dict[str, Callable[[Any, Any], Any]] = {
        "SUM": torch.add,
        "PRODUCT": torch.mul,
        "MIN": torch.minimum,
        "MAX": torch.maximum,
    }

    def gathered(tensor: Any) -> list[Any]:
        parts: list[Any] = gather.for_rank(own.rank)(tensor)
        if len({tuple(part.shape) for part in parts}) > 1:
            shapes = ", ".join(str(tuple(part.shape)) for part in parts)
            raise RankMismatch(f"the ranks gather tensors of the shapes {shapes}: real processes fail or hang")
        return parts

    def gathered_objects(value: Any) -> list[Any]:
        pickled = torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8)
        return [pickle.loads(bytes(part.tolist())) for part in gather.for_rank(own.rank)(pickled)]

    methods: dict[str, Callable[..., Any]] = {
        "_do_all_reduce": lambda _, tensor, op="SUM", **__: reduce(operations[op], gathered(tensor)),
        "_do_all_gather": lambda _, tensor, **__: torch.cat(gathered(tensor.reshape(tensor.shape or (1,)))),
        "_do_all_gather_object": lambda _, value, **__: gathered_objects(value),
        "_do_broadcast": lambda _, tensor, src: gathered(tensor)[src],
        "barrier": lambda _: gathered(torch.zeros(())),
        "_do_new_group": lambda _, ranks, **__: ranks,
        "_rank_not_in_group": lambda _, group: group is not None and own.rank not in group,
        "device": lambda _: torch.device("cpu"),
        "backend": lambda _: "gloo",
    }
    ranks = dict.fromkeys(("get_rank", "get_local_rank"), lambda _: own.rank)
    sizes = dict.fromkeys(("get_world_size", "get_nproc_per_node", "_compute_nproc_per_node"), lambda _: world)
    unused = dict.fromkeys(("create_from_backend", "create_from_context", "spawn", "finalize"), lambda *_, **__: None)
    nodes = {"get_nnodes": lambda _: 1, "get_node_rank": lambda _: 0}
    return type("RanksOfThreads", (ComputationModel,), {**methods, **ranks, **sizes, **unused, **nodes})()
