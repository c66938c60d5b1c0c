"""A class that is only among the best two."""

import torch
from torchmetrics.classification import MulticlassAccuracy

metric = MulticlassAccuracy(num_classes=3, top_k=2, average="macro")
scores = torch.tensor([[0.6, 0.3, 0.1], [0.6, 0.3, 0.1]])
metric.update(scores, torch.tensor([0, 0]))
value = metric.compute().item()
print(value, "expected 1.0: class 0 is found, the others are not true")
raise SystemExit(abs(value - 1) > 1e-6)
