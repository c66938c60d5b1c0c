"""The correlation of perfect predictions of one class."""

import torch
from torchmetrics.classification import BinaryMatthewsCorrCoef

metric = BinaryMatthewsCorrCoef()
metric.update(torch.tensor([1, 1]), torch.tensor([1, 1]))
value = metric.compute().item()
print(value, "expected 1.0, as the documentation of the mended release says")
raise SystemExit(abs(value - 1) > 1e-6)
