"""Errors beside the numbers of libraries, as their adapters describe them."""

from __future__ import annotations

import math

import pytest

import pytest_evalcheck as ec
from pytest_evalcheck import adapters

DOCUMENTS = [{"question": f"q{i}", "answer": "4"} for i in range(8)]
RESPONSES = [["4"] if i % 4 else ["5"] for i in range(8)]


def test_the_standard_errors_of_a_task_of_lm_eval_are_read() -> None:
    pytest.importorskip("lm_eval")
    from fixtures.targets._lm_eval import metrics, task

    record = adapters.record("scorer", task(metric_list=metrics("exact_match")))
    (interval,) = record.intervals
    found = interval.read(record.summary(RESPONSES, DOCUMENTS))
    assert found.value == pytest.approx(0.75)
    assert found.error == pytest.approx(math.sqrt(0.75 * 0.25 / 7))
    assert interval.read(record.summary(RESPONSES[:1], DOCUMENTS[:1])) is None


def test_a_bootstrapper_of_torchmetrics_has_an_error() -> None:
    torchmetrics = pytest.importorskip("torchmetrics")
    mean = torchmetrics.classification.BinaryAccuracy()
    record = ec.Metric.of(torchmetrics.wrappers.BootStrapper(mean, num_bootstraps=20))
    assert [(each.value, each.error, each.draws) for each in record.intervals] == [("mean", "std", 20)]
    assert not ec.Metric.of(torchmetrics.wrappers.BootStrapper(mean, std=False)).intervals
    assert not ec.Metric.of(mean).intervals


def test_metrics_and_reducers_of_inspect_ai_are_described() -> None:
    scorer = pytest.importorskip("inspect_ai.scorer")
    from pytest_evalcheck.adapters.inspect_ai.scorer import metrics, reducer

    record = metrics(scorer.accuracy(), scorer.stderr())
    assert record.summary(RESPONSES, DOCUMENTS) == pytest.approx({"value": 0.75, "error": math.sqrt(0.75 * 0.25 / 7)})
    assert {*metrics(scorer.mean(), scorer.ci_wilson()).summary(RESPONSES, DOCUMENTS)} == {"value", "lower", "upper"}
    made = reducer(scorer.pass_at(2), exact="pass@k", k=2).reducer
    assert made.reduce([0.0, 1.0, 0.0, 0.0]) == made.value([0.0, 1.0, 0.0, 0.0]) == pytest.approx(0.5)
