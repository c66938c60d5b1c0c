"""Float64 confidences at the border of a bin."""

import torch
from torchmetrics.functional.classification import binary_calibration_error

generator = torch.Generator().manual_seed(0)
scores = torch.linspace(0, 1, 11, dtype=torch.float64)[1:-1].repeat(4)
target = torch.randint(0, 2, scores.shape, generator=generator)
inside = binary_calibration_error(scores, target, n_bins=10, norm="l1").item()
borders = torch.linspace(0, 1, 11, dtype=torch.float64)
indices = torch.bucketize(scores, borders, right=True) - 1
parts = [(indices == i) for i in range(10) if (indices == i).any()]
expected = sum(
    (part.sum() / len(scores) * (scores[part].mean() - target[part].double().mean()).abs()).item() for part in parts
)
print(inside, "expected", expected)
raise SystemExit(abs(inside - expected) > 1e-6)
