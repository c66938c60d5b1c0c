"""A copy of a metric."""

import copy

import torch
from ignite.metrics import MeanSquaredError

metric = MeanSquaredError()
metric.update((torch.tensor([1.0, 2.0]), torch.tensor([0.0, 0.0])))
try:
    value = copy.deepcopy(metric).compute()
except Exception as error:
    print(type(error).__name__, error)
    raise SystemExit(1) from None
print(value, "expected 2.5")
raise SystemExit(value != 2.5)
