"""torchmetrics: `Metric`, including wrappers and compositions of metrics, and `MetricCollection`."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any

from pytest_evalcheck.adapters.protocols.metric import by_name, weights_of
from pytest_evalcheck.expectations.call_log import called, pickled
from pytest_evalcheck.kinds.common.convention import Convention
from pytest_evalcheck.kinds.common.intervals import Interval
from pytest_evalcheck.kinds.common.thread_ranks import AllGather, on_ranks
from pytest_evalcheck.kinds.metric.record import Metric

CLASSES = ("torchmetrics.collections.MetricCollection", "torchmetrics.metric.Metric")
_COLLECTION = "MetricCollection"


def record(metric: Any) -> Metric:
    """The record of a torchmetrics object, with its methods to synchronise, merge, copy and serialise."""
    import torch

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
        collective=frozenset({"sync"}),
        copies={
            "deepcopy": lambda: record(called(copy.deepcopy, metric)),
            "pickle": lambda: record(pickled(metric)),
        },
        save=lambda: _saved(metric),
        load=lambda saved: _load(metric, saved),
        forget=lambda: _forget(metric),
        state=lambda: _state(metric),
        members=(lambda: _members(metric)) if collection else None,
        widen=lambda: called(metric.set_dtype, torch.float64),
        synchronised=metric.compute,
        to=metric.to,
        device=None if collection else lambda: metric.device,
        weights="" if collection else _weights(metric.__class__),
        conventions=_conventions(metric),
        intervals=_intervals(metric),
        source=metric,
    )


_UPDATES = 3000


def _intervals(metric: Any) -> tuple[Interval, ...]:
    """Mean and standard deviation of a `BootStrapper` with both."""
    names = {f"{cls.__module__}.{cls.__qualname__}" for cls in type(metric).__mro__}
    both = "torchmetrics.wrappers.bootstrapping.BootStrapper" in names and metric.mean and metric.std
    if not both:
        return ()
    draws = metric.num_bootstraps  # so many metrics are updated for each data set
    return (Interval(value="mean", error="std", draws=draws, trials=max(20, _UPDATES // draws)),)


def _conventions(metric: Any) -> dict[str, Convention]:
    """Arguments by name, where all metrics inside name theirs alike."""
    signatures = [_named(inner.__class__) for inner in _all_metrics(metric)]
    named = [signature for signature in signatures if signature]
    return by_name(metric.update, named[0]) if named and all(each == named[0] for each in named) else {}


@lru_cache(maxsize=64)  # an object is made for each value that is compared
def _weights(cls: Any) -> str:
    return weights_of(cls.update)


@lru_cache(maxsize=64)
def _named(cls: Any) -> list[inspect.Parameter]:
    """The parameters of an update; empty for a wrapper, which passes on what it is given."""
    parameters = list(inspect.signature(cls.update).parameters.values())[1:]
    open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    # Annotations differ between classes that are called alike.
    return [each.replace(annotation=each.empty) for each in parameters if each.kind not in open_ended]


_EXTREMES = (
    'MinMaxMetric: "The min/max value will be updated each time .compute is called"; Lightning-AI/torchmetrics#3389: '
    '"Override reset() to preserve accumulated min/max across epoch resets"'
)
_BY_DESIGN = {
    "torchmetrics.wrappers.minmax.MinMaxMetric": dict.fromkeys(("EC204", "EC205", "EC215", "EC220"), _EXTREMES),
}


def by_design(metric: Any) -> Mapping[str, str]:
    """By code: what the documentation of torchmetrics says that this metric does otherwise."""
    names = (f"{cls.__module__}.{cls.__qualname__}" for cls in type(metric).__mro__)
    return next((_BY_DESIGN[name] for name in names if name in _BY_DESIGN), {})


def _all_metrics(metric: Any) -> list[Any]:
    """The metric and all metrics inside it, including wrapped and composed ones."""
    return [module for module in metric.modules() if hasattr(module, "_reductions")]


def _synchronise(ranks: Sequence[Metric]) -> Any:
    """The value of compute() on rank 0 when every rank computes, with the synchronisation of torchmetrics."""
    metrics = [rank.source for rank in ranks]
    gather = AllGather(len(metrics))
    with ExitStack() as connected:
        for rank, metric in enumerate(metrics):
            for inner in _all_metrics(metric):
                connected.enter_context(_connected(inner, gather.for_rank(rank)))
        return on_ranks([rank.compute for rank in ranks], gather)


@contextmanager
def _connected(metric: Any, gather: Callable[..., Any]) -> Iterator[None]:
    before = metric.dist_sync_fn, metric.distributed_available_fn
    metric.dist_sync_fn, metric.distributed_available_fn = gather, lambda: True
    try:
        yield
    finally:
        metric.dist_sync_fn, metric.distributed_available_fn = before


def _can_merge_state(metric: Any) -> bool:
    from torchmetrics import Metric as Base

    if not hasattr(metric, "merge_state"):  # before torchmetrics 1.5
        return False
    own = type(metric).merge_state is not getattr(Base, "merge_state", None)
    simple = metric.full_state_update is False and not metric.dist_sync_on_step
    # A metric with inner metrics has its state in them, where merge_state does not find it.
    return (own or simple) and len(_all_metrics(metric)) == 1


def _merge_state(ranks: Sequence[Metric]) -> Any:
    # A copy of the record, so that a callable of it that was changed is used.
    copied = ranks[0].copies.get("deepcopy")
    first = copied() if copied else record(called(copy.deepcopy, ranks[0].source))
    for rank in ranks[1:]:
        called(first.source.merge_state, called(copy.deepcopy, rank.source))
    return called(first.compute)


def _saved(metric: Any) -> Any:
    """The state dict, in which states that are not persistent are missing by default."""
    saved = called(copy.deepcopy, metric)
    called(saved.persistent, True)
    return called(saved.state_dict)


def _load(metric: Any, saved: Any) -> None:
    called(metric.persistent, True)
    called(metric.load_state_dict, saved)


def _forget(metric: Any) -> None:
    for inner in _all_metrics(metric):
        called(setattr, inner, "_computed", None)


def _state(metric: Any) -> Mapping[str, Any]:
    return {
        f"{i}.{name}" if i else name: called(getattr, inner, name)
        for i, inner in enumerate(_all_metrics(metric))
        for name in inner._defaults
    }


def _members(collection: Any) -> Mapping[str, Metric]:
    """Each member in a collection of its own, with the same names and without shared state."""
    given = {"prefix": collection.prefix, "postfix": collection.postfix, "compute_groups": False}
    plain = next(cls for cls in type(collection).__mro__ if cls.__qualname__ == _COLLECTION)
    members = {}
    for name, member in collection.items(keep_base=True, copy_state=False):
        try:
            alone = called(type(collection), {name: called(copy.deepcopy, member)}, **given)
        except TypeError:  # a class of its own takes other arguments
            alone = called(plain, {name: called(copy.deepcopy, member)}, **given)
        members[name] = record(alone)
    return members


def _is_collection(metric: Any) -> bool:
    return any(cls.__qualname__ == _COLLECTION for cls in type(metric).__mro__)
