"""The kind of metrics."""

from __future__ import annotations

from pytest_evalcheck.kinds.common.kind import KindSpec
from pytest_evalcheck.kinds.metric.declared import OPTIONS
from pytest_evalcheck.kinds.metric.record import Metric
from pytest_evalcheck.kinds.metric.subject import MetricSubject

_ROOM = "pytest_evalcheck.kinds.metric"

SPEC = KindSpec(
    name="metric",
    record=Metric,
    subject=MetricSubject,
    accumulates=True,
    checks=tuple(
        f"{_ROOM}.checks_{name}" for name in ("streams", "state", "precision", "data", "options", "conventions")
    ),
    example="multiclass(classes=5)",
    expected=(
        "an ec.Metric, an object of torchmetrics or Hugging Face evaluate, one with update() and compute() or with "
        "update_state() and result(), or a function of predictions and targets"
    ),
    methods=("update", "compute"),
    complete_hint=(
        "Its update() takes no batch, or its compute() asks for arguments: return `ec.Metric(update=..., compute=...)`."
    ),
    partial_hint="`ec.Metric(update=..., compute=...)`",
    options=OPTIONS,
)
