"""A batch of one sample."""

import torch
from torchmetrics.classification import MulticlassAccuracy

metric = MulticlassAccuracy(num_classes=3, top_k=2, average="micro")
try:
    metric.update(torch.tensor([[0.5, 0.4, 0.1]]), torch.tensor([1]))
    value = metric.compute().item()
except Exception as error:
    print(type(error).__name__, error)
    raise SystemExit(1) from None
print(value, "expected 1.0")
raise SystemExit(abs(value - 1) > 1e-6)
