"""A function as aggregation."""

import torch
from torchmetrics.retrieval import RetrievalMAP

metric = RetrievalMAP(aggregation=lambda values, dim=None: values.sum())
metric.update(torch.tensor([0.9, 0.2, 0.3, 0.8]), torch.tensor([1, 0, 1, 1]), indexes=torch.tensor([0, 0, 1, 1]))
value = metric.compute().item()
print(value, "expected 2.0")
raise SystemExit(abs(value - 2) > 1e-6)
