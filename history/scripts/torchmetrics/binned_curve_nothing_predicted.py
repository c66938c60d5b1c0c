"""The precision at a threshold that no score reaches."""

import torch
from torchmetrics.classification import BinaryPrecisionRecallCurve

metric = BinaryPrecisionRecallCurve(thresholds=[0.0, 0.9])
metric.update(torch.tensor([0.2, 0.3]), torch.tensor([0, 1]))
precision, _, _ = metric.compute()
print(precision, "expected nan at the second threshold")
raise SystemExit(not precision[1].isnan())
