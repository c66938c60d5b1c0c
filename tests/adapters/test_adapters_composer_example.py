"""The example of two devices is a replica of Composer's evaluation: the same targets with Composer's own Trainer."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

import pytest
import torch

import pytest_evalcheck as ec
from fixtures.gallery.devices_composer import outputs_moved_alone

composer = pytest.importorskip("composer")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "evalcheck_3_two_devices.py"


class Trainer:
    """Composer's `Trainer` with the constructor and the ``eval`` of the example's."""

    def __init__(self, model, device):
        self.trainer = composer.Trainer(
            model=model, device=device, precision="fp32", progress_bar=False, log_to_console=False
        )

    def eval(self, batches):
        evaluator = composer.Evaluator(label="drawn", dataloader=batches, device_eval_microbatch_size=None)
        self.trainer.eval(eval_dataloader=evaluator)
        metrics = self.trainer.state.eval_metrics["drawn"]
        return {name: metric.compute().item() for name, metric in metrics.items()}


def example(*, real):
    """The module of the example, with Composer in place of what it has written out."""
    spec = importlib.util.spec_from_file_location(EXAMPLE.stem, EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not real:
        return module
    accuracy = module.MulticlassAccuracy(num_classes=4, average="micro")

    class Classifier(module.Classifier, composer.models.ComposerModel):
        def forward(self, batch):
            return self.network(batch["x"])

        def loss(self, outputs, batch):
            return torch.nn.functional.cross_entropy(outputs, batch["labels"])

        def get_metrics(self, is_train=False):
            return {} if is_train else {"accuracy": accuracy}

    module.Classifier, module.Trainer = Classifier, Trainer
    return module


def results(module, name):
    """Outcome and text of the check of devices, and the numbers on the CPU."""
    target = dataclasses.replace(getattr(module, name), requires=())  # Composer needs an older torchmetrics
    (cell,) = ec.run(target, "auto", select="EC610", effort="quick").cells
    assert cell.device == "sim:mps"
    torch.manual_seed(0)
    loop = target.factory("cpu")
    data = ec.LoopData(target.inputs.fixed(5), target.inputs.collate)
    return cell.outcome, cell.failure and (cell.failure.about, cell.failure.detail), loop.evaluate(data, batch_size=2)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "outcome"), [("faulty", "failed"), ("mended", "passed")])
def test_composer_does_what_its_replica_does(name, outcome):
    with outputs_moved_alone():
        composers = results(example(real=True), name)
    assert composers == results(example(real=False), name)
    assert composers[0] == outcome
