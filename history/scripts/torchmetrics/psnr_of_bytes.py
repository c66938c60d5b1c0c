"""Images of bytes."""

import torch
from torchmetrics.image import PeakSignalNoiseRatio

preds = torch.tensor([[0, 10], [20, 30]], dtype=torch.uint8).reshape(1, 1, 2, 2)
target = torch.tensor([[1, 11], [19, 29]], dtype=torch.uint8).reshape(1, 1, 2, 2)
metric, exact = PeakSignalNoiseRatio(data_range=255.0), PeakSignalNoiseRatio(data_range=255.0)
metric.update(preds, target)
exact.update(preds.float(), target.float())
print(metric.compute(), exact.compute(), "expected to be equal")
raise SystemExit(abs(metric.compute() - exact.compute()) > 1e-3)
