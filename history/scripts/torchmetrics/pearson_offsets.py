"""Small values with an offset, beside float64."""

import torch
from torchmetrics.regression import PearsonCorrCoef

generator = torch.Generator().manual_seed(0)
worst = 0.0
for scale in (1.0, 1e-5):
    x = scale * torch.rand(500, generator=generator)
    y = x + 0.5 * scale * torch.rand(500, generator=generator)
    metric, exact = PearsonCorrCoef(), PearsonCorrCoef().set_dtype(torch.float64)
    for start in range(0, 500, 50):
        part = slice(start, start + 50)
        metric.update(x[part], y[part])
        exact.update(x[part].double(), y[part].double())
    value, expected = metric.compute().item(), exact.compute().item()
    print(scale, value, "expected", expected)
    worst = max(worst, abs(value - expected)) if value == value else 1.0
raise SystemExit(worst > 1e-3)
