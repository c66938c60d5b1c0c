"""The error of one band, by hand."""

import torch
from torchmetrics.functional.image import error_relative_global_dimensionless_synthesis

target = torch.full((1, 1, 16, 16), 2.0)
value = error_relative_global_dimensionless_synthesis(target + 1, target, ratio=4).item()
print(value, "expected 100 / 4 * 1 / 2 = 12.5")
raise SystemExit(abs(value - 12.5) > 1e-3)
