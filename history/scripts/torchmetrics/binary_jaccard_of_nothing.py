"""No positive prediction, and no positive label."""

import torch
from torchmetrics.classification import BinaryJaccardIndex

metric = BinaryJaccardIndex()
metric.update(torch.tensor([0, 0]), torch.tensor([0, 0]))
value = metric.compute().item()
print(value, "expected 0.0")
raise SystemExit(value != 0)
