"""A row with an ignored label."""

import torch
from torchmetrics.classification import MultilabelExactMatch

metric = MultilabelExactMatch(num_labels=2, ignore_index=-1)
metric.update(torch.tensor([[1, 0]]), torch.tensor([[1, -1]]))
value = metric.compute().item()
print(value, "expected 1.0")
raise SystemExit(abs(value - 1) > 1e-6)
