"""Two hundred thousand small numbers after a large one."""

import torch
from torcheval.metrics import Mean

metric = Mean()
metric.update(torch.tensor([1e8]))
for _ in range(2000):
    metric.update(torch.ones(1))
value = float(metric.compute()) * 2001
print(value, "expected 100002000")
raise SystemExit(abs(value - 100_002_000) > 100)
