"""Precision, recall and F1 of the best two, where each sample has one answer."""

import torch
from torchmetrics.classification import MulticlassF1Score

metric = MulticlassF1Score(num_classes=3, top_k=2, average="micro")
metric.update(torch.tensor([[0.5, 0.4, 0.1], [0.2, 0.5, 0.3]]), torch.tensor([1, 2]))
value = metric.compute().item()
print(value, "expected 1.0: both labels are among the best two")
raise SystemExit(abs(value - 1) > 1e-6)
