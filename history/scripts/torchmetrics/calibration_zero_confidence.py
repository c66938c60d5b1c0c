"""Confidences of 0 belong to the first bin, not to the last one."""

import torch
from torchmetrics.classification import BinaryCalibrationError

metric = BinaryCalibrationError(n_bins=2, norm="l1")
metric.update(torch.tensor([0.0, 0.9]), torch.tensor([0, 1]))
try:
    value = metric.compute().item()
except RuntimeError as error:
    print(error)
    raise SystemExit(1) from None
print(value, "expected 0.05")
raise SystemExit(abs(value - 0.05) > 1e-5)
