"""One score outside of [0, 1] in another batch."""

import torch
from torchmetrics.classification import BinaryPrecisionRecallCurve

try:
    metric = BinaryPrecisionRecallCurve(thresholds=None, normalization=None)
except (TypeError, ValueError) as error:
    print(error)
    raise SystemExit(1) from None
metric.update(torch.tensor([0.2, 3.0]), torch.tensor([0, 1]))
_, _, thresholds = metric.compute()
print(thresholds, "expected 0.2 and 3.0")
raise SystemExit(not torch.allclose(thresholds, torch.tensor([0.2, 3.0])))
