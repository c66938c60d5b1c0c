"""The lists of samples after a batch of half precision."""

import torch
from torchmetrics.regression import SpearmanCorrCoef

metric = SpearmanCorrCoef()
metric.update(torch.tensor([1.0, 2.0, 4.0]).bfloat16(), torch.tensor([1.0, 3.0, 2.0]).bfloat16())
print(metric.preds[0].dtype, "expected torch.float32")
raise SystemExit(metric.preds[0].dtype != torch.float32)
