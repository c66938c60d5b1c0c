"""Rows of labels of one dimension."""

import torch
from torchmetrics.segmentation import GeneralizedDiceScore

metric = GeneralizedDiceScore(num_classes=3, input_format="index")
try:
    metric.update(torch.tensor([[0, 1, 2, 1]]), torch.tensor([[0, 1, 2, 1]]))
    value = metric.compute().item()
except ValueError as error:
    print(error)
    raise SystemExit(1) from None
print(value, "expected 1.0")
raise SystemExit(abs(value - 1) > 1e-6)
