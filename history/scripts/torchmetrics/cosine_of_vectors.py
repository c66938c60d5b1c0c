"""Inputs of one dimension."""

import torch
from torchmetrics.regression import CosineSimilarity

metric = CosineSimilarity(reduction="mean")
try:
    metric.update(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([3.0, 2.0, 1.0]))
    value = metric.compute()
except ValueError as error:
    print(error)
    raise SystemExit(0) from None
print(value, "expected a value of the two vectors, or an error")
raise SystemExit(1)
