"""The correlation of a stream that comes one sample at a time."""

import torch
from torchmetrics.regression import PearsonCorrCoef

preds, target = torch.tensor([1.0, 2.0, 4.0, 3.0]), torch.tensor([1.0, 3.0, 2.0, 4.0])
metric = PearsonCorrCoef()
for p, t in zip(preds, target, strict=False):
    metric.update(p.reshape(1), t.reshape(1))
value, expected = metric.compute().item(), torch.corrcoef(torch.stack([preds, target]))[0, 1].item()
print(value, "expected", expected)
raise SystemExit(not abs(value - expected) < 1e-5)
