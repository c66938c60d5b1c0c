"""Samples with several positions, beside the same positions as samples."""

import torch
from torchmetrics.classification import MulticlassAccuracy

generator = torch.Generator().manual_seed(0)
scores, target = torch.rand(4, 3, 5, generator=generator), torch.randint(3, (4, 5), generator=generator)
metric, flat = (MulticlassAccuracy(num_classes=3, top_k=2, average="micro") for _ in range(2))
try:
    metric.update(scores, target)
    value = metric.compute().item()
except Exception as error:
    print(type(error).__name__, error)
    raise SystemExit(1) from None
flat.update(scores.movedim(1, -1).reshape(-1, 3), target.reshape(-1))
expected = flat.compute().item()
print(value, "expected", expected)
raise SystemExit(abs(value - expected) > 1e-6)
