"""Labels that are bool."""

import torch
from torcheval.metrics.functional import multiclass_accuracy

try:
    value = multiclass_accuracy(torch.tensor([0, 1, 1, 0]).bool(), torch.tensor([0, 1, 0, 0]).bool()).item()
except Exception as error:
    print(type(error).__name__, error)
    raise SystemExit(1) from None
print(value, "expected 0.75")
raise SystemExit(value != 0.75)
