"""The states after a batch of half precision."""

import torch
from torchmetrics.regression import PearsonCorrCoef

metric = PearsonCorrCoef()
metric.update(torch.tensor([1.0, 2.0, 4.0]).bfloat16(), torch.tensor([1.0, 3.0, 2.0]).bfloat16())
print(metric.mean_x.dtype, "expected torch.float32")
raise SystemExit(metric.mean_x.dtype != torch.float32)
