"""The partial area where one class is missing."""

import torch
from torchmetrics.classification import BinaryAUROC

metric = BinaryAUROC(max_fpr=0.5)
metric.update(torch.tensor([0.1, 0.7]), torch.tensor([0, 0]))
try:
    value = metric.compute().item()
except Exception as error:
    print(type(error).__name__, error)
    raise SystemExit(1) from None
print(value, "expected 0.0, as without max_fpr")
raise SystemExit(value != 0)
