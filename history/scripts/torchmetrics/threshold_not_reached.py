"""The threshold of a precision that is not reached."""

import torch
from torchmetrics.classification import BinaryRecallAtFixedPrecision

metric = BinaryRecallAtFixedPrecision(min_precision=0.9)
metric.update(torch.tensor([0.2, 0.8]), torch.tensor([1, 0]))
recall, threshold = metric.compute()
print(recall, threshold, "expected nan")
raise SystemExit(not threshold.isnan())
