"""An evaluation on MPS moves the outputs to the CPU for the metric, and leaves the labels behind.

The report: https://github.com/mosaicml/composer/issues/3094
"""

import torch
from torchmetrics.classification import MulticlassAccuracy

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es

NEEDS = ("torchmetrics>=1.9,<1.10",)
ROWS = es.tabular(features=3, classes=4)


class Classifier(torch.nn.Module):
    """As a model of Composer."""

    def __init__(self):
        super().__init__()
        self.network = torch.nn.Linear(3, 4)

    def eval_forward(self, batch, outputs=None):
        return self.network(batch["x"])

    def update_metric(self, batch, outputs, metric):
        metric.update(outputs, batch["labels"])


class Trainer:
    """The evaluation loop of Composer's Trainer, shortened."""

    def __init__(self, model, device):
        self.model, self.device = model.to(device).eval(), torch.device(device)

    def eval(self, batches):
        on_mps = self.device.type == "mps"
        metric = MulticlassAccuracy(num_classes=4, average="micro").to("cpu" if on_mps else self.device)
        for batch in batches:
            batch = {name: tensor.to(self.device) for name, tensor in batch.items()}
            with torch.no_grad():
                outputs = self.model.eval_forward(batch)
            if on_mps:  # where torchmetrics computes wrong values
                outputs = outputs.cpu()
            self.model.update_metric(batch, outputs, metric)
        return {"accuracy": metric.compute().item()}


def loop(model, device):
    trainer = Trainer(model, device)

    def evaluate(data, batch_size=2):
        return trainer.eval(torch.utils.data.DataLoader(data, batch_size, collate_fn=data.collate))

    return ec.Loop(evaluate=evaluate, model=model)


@ec.loop(inputs=ROWS, devices=("cpu", "mps"), requires=NEEDS)
def faulty(device):
    return loop(Classifier(), device)


# EC610 the_results_match_the_cpu (of evaluate in the target's file)
# fails for examples/evalcheck_3_two_devices.py::faulty on sim:mps
#     evaluate(batch_size=2) runs on the CPU and not on mps
#         evaluate raised RuntimeError: Encountered different devices in metric calculation ...


@ec.loop(inputs=ROWS, devices=("cpu", "mps"), requires=NEEDS)
def mended(device):
    from pytest_evalcheck.fixes.composer_devices import OneDevice

    class Mended(OneDevice, Classifier): ...

    return loop(Mended(), device)
