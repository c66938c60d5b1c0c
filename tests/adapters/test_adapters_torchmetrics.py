"""Metrics of torchmetrics, whichever release is installed: ``nox -s libraries`` runs this with the oldest one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import pytest_evalcheck as ec
from pytest_evalcheck import adapters
from pytest_evalcheck import strategies as es

pytest.importorskip("torchmetrics")

FAULTS = "EC210,EC211,EC216,EC219,EC220"
"""Properties that every release keeps for these metrics; docs/findings has those that some releases fail."""


def _f1() -> Any:
    from torchmetrics.classification import BinaryF1Score

    return BinaryF1Score()


def _mean() -> Any:
    from torchmetrics.aggregation import MeanMetric

    return MeanMetric()


def _error() -> Any:
    from torchmetrics.regression import MeanSquaredError

    return MeanSquaredError()


@pytest.mark.parametrize(("made", "inputs"), [(_f1, es.binary()), (_mean, es.values()), (_error, es.regression())])
def test_a_metric_keeps_its_promises(made: Callable[[], Any], inputs: es.SampleStrategy) -> None:
    def metric(device: str) -> Any:
        return made().to(device)

    report = ec.run(ec.metric(inputs=inputs)(metric), "cpu", select="EC2", ignore=f"{FAULTS},EC212", effort="quick")
    assert not report.of("failed"), report
    assert {"EC201", "EC203", "EC204", "EC205", "EC209", "EC215"} <= {cell.code for cell in report.of("passed")}


def test_a_collection_has_members() -> None:
    from torchmetrics import MetricCollection

    record = adapters.record("metric", MetricCollection([_f1(), _error()]))
    assert record.members is not None
    assert sorted(record.members()) == ["BinaryF1Score", "MeanSquaredError"]


def test_a_merge_method_is_offered_where_the_release_has_one() -> None:
    metric = _f1()
    expected = ["sync", "merge_state"] if hasattr(metric, "merge_state") else ["sync"]
    assert list(adapters.record("metric", metric).merges) == expected


def test_what_a_class_means_is_its_adapters_knowledge() -> None:
    from torchmetrics.wrappers import MinMaxMetric

    assert set(adapters.by_design("metric", MinMaxMetric(_f1()))) == {"EC204", "EC205", "EC215", "EC220"}
    assert adapters.by_design("metric", _f1()) == {}
    assert adapters.by_design("metric", object()) == {}
