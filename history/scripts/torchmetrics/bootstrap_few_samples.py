"""Batches of one sample."""

import torch
from torchmetrics.regression import PearsonCorrCoef
from torchmetrics.wrappers import BootStrapper

torch.manual_seed(0)
metric = BootStrapper(PearsonCorrCoef(), num_bootstraps=4)
try:
    for _ in range(8):
        metric.update(torch.rand(1), torch.rand(1))
except Exception as error:
    print(type(error).__name__, error)
    raise SystemExit(1) from None
value = float(metric.compute()["mean"])
print(value)
raise SystemExit(value != value)
