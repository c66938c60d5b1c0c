"""MONAI: a metric that is called batch by batch, by its methods, and images one by one in a list."""

from __future__ import annotations

from typing import Any

from pytest_evalcheck.adapters.protocols import metric as protocols
from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.kinds.common.convention import Convention
from pytest_evalcheck.kinds.metric.record import Metric

CLASSES = ("monai.metrics.metric.CumulativeIterationMetric",)

_LISTS = (
    '"the raw model prediction data at one iteration, must be a list of `channel-first` Tensor or a `batch-first` '
    'Tensor." (y_pred of monai.metrics.IterationMetric)'
)


def record(metric: Any) -> Metric:
    """Return the record that its methods give, with its conventions."""
    known = protocols.record(metric)

    def lists(*args: Any, **kwargs: Any) -> None:
        called(known.update, *map(list, args), **{name: list(each) for name, each in kwargs.items()})

    ways = {"lists of channel-first tensors": Convention(_LISTS, update=lists)}
    return protocols.with_conventions(known, record, ways)
