"""A NaN that is ignored takes its weight with it."""

import torch
from torchmetrics import MeanMetric

metric = MeanMetric(nan_strategy="ignore")
try:
    metric.update(torch.tensor([1.0, float("nan"), 3.0]), weight=torch.tensor([1.0, 5.0, 1.0]))
    value = metric.compute().item()
except Exception as error:
    print(type(error).__name__, error)
    raise SystemExit(1) from None
print(value, "expected 2.0")
raise SystemExit(abs(value - 2) > 1e-6)
