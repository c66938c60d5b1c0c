"""Samples of one cluster."""

import torch
from ignite.metrics.clustering import SilhouetteScore

metric = SilhouetteScore()
metric.update((torch.rand(6, 2), torch.zeros(6, dtype=torch.long)))
try:
    value = metric.compute()
except Exception as error:
    print(type(error).__name__, error)
    raise SystemExit(1) from None
print(value, "expected nan")
raise SystemExit(value == value)
