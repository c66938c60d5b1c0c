"""State that is left after reset()."""

import torch
from torchmetrics.regression import MeanSquaredError
from torchmetrics.wrappers import LambdaInputTransformer

metric = LambdaInputTransformer(MeanSquaredError(), lambda preds: preds)
metric.update(torch.ones(4), torch.zeros(4))
metric.reset()
metric.update(torch.zeros(4), torch.zeros(4))
value = metric.compute().item()
print(value, "expected 0.0")
raise SystemExit(value != 0)
