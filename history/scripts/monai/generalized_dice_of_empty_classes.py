"""No class is in the truth, and some are predicted."""

import torch
from monai.metrics import compute_generalized_dice

pred, truth = torch.ones(1, 2, 2, 2), torch.zeros(1, 2, 2, 2)
value = compute_generalized_dice(pred, truth, sum_over_classes=True).flatten()
print(value, "expected 0.0")
raise SystemExit(not bool((value == 0).all()))
