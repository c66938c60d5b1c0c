"""State that is left after reset()."""

import torch
from torchmetrics.regression import MeanSquaredError
from torchmetrics.wrappers import BootStrapper

torch.manual_seed(0)
metric = BootStrapper(MeanSquaredError(), num_bootstraps=4)
metric.update(torch.ones(10), torch.zeros(10))
metric.reset()
metric.update(torch.zeros(10), torch.zeros(10))
value = float(metric.compute()["mean"])
print(value, "expected 0.0")
raise SystemExit(value != 0)
