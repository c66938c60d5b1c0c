from __future__ import annotations

import pytest
import torch
from loop_data import data, mean_loss, network

pytest.importorskip("ignite")

from ignite.engine import create_supervised_evaluator
from ignite.metrics import Accuracy, ConfusionMatrix, Loss

from pytest_evalcheck import adapters
from pytest_evalcheck.kinds.loop.record import SampleError


def evaluator(model):
    metrics = {
        "loss": Loss(torch.nn.CrossEntropyLoss()),
        "accuracy": Accuracy(),
        "confusion": ConfusionMatrix(2),
    }
    return create_supervised_evaluator(
        model, metrics=metrics, prepare_batch=lambda batch, device, non_blocking: (batch["x"], batch["labels"])
    )


@pytest.mark.parametrize("iterable", [False, True])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_the_numbers_are_the_metrics_of_a_run(size, iterable):
    model = network()
    record = adapters.record("loop", evaluator(model))
    found = record.evaluate(data(), batch_size=size, iterable=iterable)
    assert found["loss"] == pytest.approx(mean_loss(model), rel=1e-5)
    assert list(found) == ["loss", "accuracy", *(f"confusion[{i}]" for i in range(4))]
    assert sum(found[f"confusion[{i}]"] for i in range(4)) == 5
    assert list(record.offered) == ["batch_size", "iterable", "workers"]


def test_a_run_that_returns_no_state_is_an_error(monkeypatch):
    engine = evaluator(network())
    record = adapters.record("loop", engine)
    with pytest.raises(SampleError):
        record.evaluate(data().failing(3))
    monkeypatch.setattr(engine, "run", lambda loader: None)
    with pytest.raises(RuntimeError, match="returned None"):
        record.evaluate(data())
