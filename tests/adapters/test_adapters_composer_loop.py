from __future__ import annotations

import pytest
import torch
from loop_data import data, mean_loss, network

import pytest_evalcheck as ec
from fixtures.gallery.devices_composer import outputs_moved_alone
from pytest_evalcheck import adapters
from pytest_evalcheck import strategies as es

composer = pytest.importorskip("composer")

from pytest_evalcheck.adapters.composer import loop as composer_loop  # noqa: E402
from pytest_evalcheck.fixes.composer_devices import OneDevice  # noqa: E402

# It warns of the loss of every batch size that it chooses itself, and of memory that ran out.
pytestmark = [pytest.mark.filterwarnings(f"ignore::{name}") for name in ("UserWarning", "RuntimeWarning")]


def trainer(made=None, mixins=(), device="cpu", **options):
    from torchmetrics import MeanMetric

    class Loss(MeanMetric):
        def update(self, outputs, labels):
            super().update(torch.nn.functional.cross_entropy(outputs, labels, reduction="none"))

    class Classifier(composer.models.ComposerModel):
        def __init__(self):
            super().__init__()
            self.network = made or network()

        def forward(self, batch):
            return self.network(batch["x"])

        def loss(self, outputs, batch):
            return torch.nn.functional.cross_entropy(outputs, batch["labels"])

        def get_metrics(self, is_train=False):
            return {} if is_train else {"loss": Loss()}

        def update_metric(self, batch, outputs, metric):
            metric.update(outputs, batch["labels"])

    model = type("Model", (*mixins, Classifier), {})()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options = {"precision": "fp32", "progress_bar": False, "log_to_console": False, **options}
    return composer.Trainer(model=model, optimizers=optimizer, device=device, **options)


@pytest.mark.parametrize("microbatch", [None, 1, 2])
def test_a_trainer_alone_becomes_a_loop_with_its_metrics(microbatch):
    made = network()
    found = adapters.record("loop", trainer(made)).evaluate(data(), batch_size=3, microbatch=microbatch)
    assert found.numbers == {"loss": pytest.approx(mean_loss(made), rel=1e-5)}
    assert [place for place, _ in found.records] == [0, 1, 2, 3, 4]


def test_several_evaluators_are_several():
    loop = composer_loop.loop(trainer())
    sets = {"first": data(2), "second": data(5)}
    found = loop.evaluators(sets, order=("second", "first"), batch_size=2)
    for name, one in sets.items():
        alone = loop.evaluate(one, batch_size=2)
        assert found[name].numbers == pytest.approx(alone.numbers)
        assert found[name].records == alone.records


def test_memory_that_runs_out_is_tried_again_in_halves():
    made, seen = network(), []
    loop = composer_loop.loop(trainer(made), retries=True)

    def counting(_module, given, _output):
        seen.append(len(given[0]))
        if len(seen) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    made.register_forward_hook(counting)
    found = loop.evaluate(data(4), batch_size=4)
    assert seen == [4, 2, 2]
    assert found.records is None
    assert found.numbers == {"loss": pytest.approx(mean_loss(made, list(data(4))), rel=1e-5)}


def test_training_calls_between_once():
    calls = []
    found = composer_loop.training(trainer)(data(), lambda: calls.append(1))
    assert calls == [1]
    assert len(found["losses"]) == 4


def on_devices(*mixins):
    """Outcomes of the check of devices by device, of a loop of the Trainer that has its historical bug."""

    @ec.loop(inputs=es.tabular(features=3, classes=2))
    def evaluates(device):
        kind = device.partition(":")[0]
        return composer_loop.loop(trainer(mixins=mixins, device={"cuda": "gpu"}.get(kind, kind)))

    with outputs_moved_alone():
        cells = ec.run(evaluates, "auto", select="EC610", effort="quick").cells
    return {cell.device: (cell.outcome, str(cell.failure and cell.failure.detail)) for cell in cells}


def test_labels_that_stay_on_mps_are_found_by_a_run_of_the_suite_without_options_and_not_with_the_fix():
    found = on_devices()
    assert found["sim:cuda"][0] == "passed"
    assert found["sim:mps"][0] == "failed"
    # A cross entropy makes a graph on MPS, which says so in its own words (mosaicml/composer#3094 has those of torchmetrics).
    assert "Placeholder storage has not been allocated on MPS device" in found["sim:mps"][1]
    assert {device: outcome for device, (outcome, _) in on_devices(OneDevice).items()} == {
        "sim:cuda": "passed",
        "sim:mps": "passed",
    }
