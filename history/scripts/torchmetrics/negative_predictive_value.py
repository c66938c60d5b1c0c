"""Three negative predictions, two of which are right."""

import torch
from torchmetrics.classification import BinaryNegativePredictiveValue

metric = BinaryNegativePredictiveValue()
metric.update(torch.tensor([0, 0, 0, 1, 1]), torch.tensor([0, 0, 1, 0, 0]))
value = metric.compute().item()
print(value, "expected 2 / 3")
raise SystemExit(abs(value - 2 / 3) > 1e-6)
