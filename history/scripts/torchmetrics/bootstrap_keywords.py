"""A wrapper that is called by keywords."""

import torch
from torchmetrics.regression import MeanSquaredError
from torchmetrics.wrappers import BootStrapper

torch.manual_seed(0)
metric = BootStrapper(MeanSquaredError(), num_bootstraps=4)
try:
    metric.update(preds=torch.rand(10), target=torch.rand(10))
    value = float(metric.compute()["mean"])
except Exception as error:
    print(type(error).__name__, error)
    raise SystemExit(1) from None
print(value)
raise SystemExit(value != value)
