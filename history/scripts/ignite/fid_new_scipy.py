"""The distance of two sets of features."""

import torch
from ignite.metrics import FID

metric = FID(num_features=2, feature_extractor=torch.nn.Identity())
generator = torch.Generator().manual_seed(0)
metric.update((torch.rand(8, 2, generator=generator), torch.rand(8, 2, generator=generator)))
try:
    value = metric.compute()
except Exception as error:
    print(type(error).__name__, error)
    raise SystemExit(1) from None
print(value)
raise SystemExit(value != value)
