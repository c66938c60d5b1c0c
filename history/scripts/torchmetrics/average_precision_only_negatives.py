"""The average precision where no label is positive."""

import torch
from torchmetrics.classification import BinaryAveragePrecision

metric = BinaryAveragePrecision()
metric.update(torch.tensor([0.1, 0.7]), torch.tensor([0, 0]))
value = metric.compute().item()
print(value, "expected 0, with a warning")
raise SystemExit(value != value)
