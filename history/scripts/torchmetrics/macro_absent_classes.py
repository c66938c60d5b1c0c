"""A class that is neither predicted nor true counts as 0 in a macro average."""

import torch
from torchmetrics.classification import MulticlassRecall

metric = MulticlassRecall(num_classes=3, average="macro")
metric.update(torch.tensor([0, 1]), torch.tensor([0, 1]))
value = metric.compute().item()
print(value, "expected 1.0")
raise SystemExit(abs(value - 1) > 1e-6)
