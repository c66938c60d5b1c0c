"""torchmetrics: `Metric`, with all that wraps one, and `MetricCollection`."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from pytest_evalcheck.kinds.common.thread_ranks import AllGather, on_ranks
from pytest_evalcheck.kinds.metric.subject import Metric


def record(metric: Any) -> Metric:
    """The record of a torchmetrics object: synchronised as over ranks, merged, copied, and written out."""
    collection = _is_collection(metric)
    merges: dict[str, Callable[[Sequence[Metric]], Any]] = {"sync": _synchronise}
    if not collection and _can_merge_state(metric):
        merges["merge_state"] = _merge_state
    return Metric(
        update=metric.update,
        compute=metric.compute,
        reset=metric.reset,
        forward=metric.forward,
        merges=merges,
        copies={
            "deepcopy": lambda: record(copy.deepcopy(metric)),
            "pickle": lambda: record(pickle.loads(pickle.dumps(metric))),
            "state_dict": lambda: record(_through_state_dict(metric)),
        },
        forget=lambda: _forget(metric),
        state=lambda: _state(metric),
        members=(lambda: _members(metric)) if collection else None,
        widen=lambda: metric.set_dtype(_float64()),
        synchronised=metric.compute,
        to=metric.to,
        device=None if collection else lambda: metric.device,
        source=metric,
    )


def _every(metric: Any) -> Iterator[Any]:
    """The metric and all metrics inside it, wrapped and composed ones included."""
    for module in metric.modules():
        if hasattr(module, "_reductions"):
            yield module


def _synchronise(ranks: Sequence[Metric]) -> Any:
    """What compute() gives on rank 0 when every rank computes, through torchmetrics' own synchronisation."""
    metrics = [rank.source for rank in ranks]
    gather = AllGather(len(metrics))
    with ExitStack() as connected:
        for rank, metric in enumerate(metrics):
            for inner in _every(metric):
                connected.enter_context(_connected(inner, gather.on(rank)))
        return on_ranks([metric.compute for metric in metrics], gather)


@contextmanager
def _connected(metric: Any, gather: Callable[..., Any]) -> Iterator[None]:
    before = metric.dist_sync_fn, metric.distributed_available_fn
    metric.dist_sync_fn, metric.distributed_available_fn = gather, lambda: True
    try:
        yield
    finally:
        metric.dist_sync_fn, metric.distributed_available_fn = before


def _can_merge_state(metric: Any) -> bool:
    own = type(metric).merge_state is not _base().merge_state
    simple = metric.full_state_update is False and not metric.dist_sync_on_step
    # A metric that holds others keeps its numbers in them, out of the reach of merge_state.
    return hasattr(metric, "merge_state") and (own or simple) and len(list(_every(metric))) == 1


def _merge_state(ranks: Sequence[Metric]) -> Any:
    first = copy.deepcopy(ranks[0].source)
    for rank in ranks[1:]:
        first.merge_state(copy.deepcopy(rank.source))
    _forget(first)
    return first.compute()


def _through_state_dict(metric: Any) -> Any:
    """A new metric that was given the state dict of this one, after a turn through bytes."""
    kept = copy.deepcopy(metric)
    kept.persistent(True)
    blank = copy.deepcopy(metric)
    blank.reset()
    blank.persistent(True)
    blank.load_state_dict(pickle.loads(pickle.dumps(kept.state_dict())))
    return blank


def _forget(metric: Any) -> None:
    for inner in _every(metric):
        inner._computed = None


def _state(metric: Any) -> Mapping[str, Any]:
    return {
        f"{i}.{name}" if i else name: getattr(inner, name)
        for i, inner in enumerate(_every(metric))
        for name in inner._defaults
    }


def _members(collection: Any) -> Mapping[str, Metric]:
    """Each member in a collection of its own, so that it is named as in the whole and shares nothing."""
    made = {}
    for name, member in collection.items(keep_base=True, copy_state=False):
        alone = type(collection)(
            {name: copy.deepcopy(member)},
            prefix=collection.prefix,
            postfix=collection.postfix,
            compute_groups=False,
        )
        made[name] = record(alone)
    return made


def _is_collection(metric: Any) -> bool:
    return any(cls.__qualname__ == "MetricCollection" for cls in type(metric).__mro__)


def _base() -> Any:
    from torchmetrics import Metric as Base

    return Base


def _float64() -> Any:
    import torch

    return torch.float64
