"""An ignore_index that is the number of classes."""

import torch
from torchmetrics.functional.classification import multiclass_jaccard_index

try:
    value = multiclass_jaccard_index(
        torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1, 2, 3]), num_classes=3, ignore_index=3
    ).item()
except (IndexError, RuntimeError) as error:
    print(error)
    raise SystemExit(1) from None
print(value, "expected 1.0")
raise SystemExit(abs(value - 1) > 1e-6)
