"""The kind of metrics."""

from __future__ import annotations

from pytest_evalcheck.kinds.common.kind import KindSpec
from pytest_evalcheck.kinds.metric.subject import Metric, MetricSubject

_ROOM = "pytest_evalcheck.kinds.metric"
_ADAPTERS = "pytest_evalcheck.adapters"

SPEC = KindSpec(
    name="metric",
    record=Metric,
    subject=MetricSubject,
    accumulates=True,
    checks=(f"{_ROOM}.checks_streams", f"{_ROOM}.checks_state", f"{_ROOM}.checks_precision"),
    example="multiclass(classes=5)",
    expected="an ec.Metric, or an object of torchmetrics or Hugging Face evaluate",
    methods=("update", "compute"),
    complete_hint="It has update() and compute(): return `ec.Metric.of(it)`.",
    partial_hint="`ec.Metric(update=..., compute=...)`",
    adapters={
        "torchmetrics.collections.MetricCollection": f"{_ADAPTERS}.torchmetrics.metric",
        "torchmetrics.metric.Metric": f"{_ADAPTERS}.torchmetrics.metric",
        "evaluate.module.CombinedEvaluations": f"{_ADAPTERS}.evaluate.metric",
        "evaluate.module.EvaluationModule": f"{_ADAPTERS}.evaluate.metric",
    },
)
