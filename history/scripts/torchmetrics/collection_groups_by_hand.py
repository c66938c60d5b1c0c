"""Groups that are given, and one batch."""

import torch
from torchmetrics import MetricCollection
from torchmetrics.classification import BinaryPrecision, BinaryRecall

metrics = MetricCollection([BinaryPrecision(), BinaryRecall()], compute_groups=[["BinaryPrecision", "BinaryRecall"]])
metrics.update(torch.tensor([1, 1, 0]), torch.tensor([1, 0, 0]))
value = {name: float(each) for name, each in metrics.compute().items()}
print(value, "expected 0.5 and 1.0")
raise SystemExit(value != {"BinaryPrecision": 0.5, "BinaryRecall": 1.0})
