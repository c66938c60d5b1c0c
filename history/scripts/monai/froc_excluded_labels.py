"""A label that is excluded and is not there."""

import numpy as np
from monai.metrics import compute_fp_tp_probs

mask = np.zeros((4, 4), dtype=int)
mask[0, 0], mask[2, 2] = 1, 2
_, _, targets = compute_fp_tp_probs(
    probs=np.array([0.9]), y_coord=np.array([0]), x_coord=np.array([0]), evaluation_mask=mask, labels_to_exclude=[7]
)
print(targets, "expected 2")
raise SystemExit(targets != 2)
