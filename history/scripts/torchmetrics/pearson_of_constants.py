"""A constant prediction."""

import torch
from torchmetrics.regression import PearsonCorrCoef

metric = PearsonCorrCoef()
metric.update(torch.full((6,), 0.1), torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
value = metric.compute().item()
generator = torch.Generator().manual_seed(0)
nearly = PearsonCorrCoef()
nearly.update(1 + 1e-7 * torch.rand(6, generator=generator), torch.rand(6, generator=generator))
other = nearly.compute().item()
print(value, other, "expected nan, nan")
raise SystemExit(not (value != value and other != other))
