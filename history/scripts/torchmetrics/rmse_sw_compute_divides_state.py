"""compute() is called after each batch."""

import torch
from torchmetrics.image import RootMeanSquaredErrorUsingSlidingWindow

generator = torch.Generator().manual_seed(0)
once, often = RootMeanSquaredErrorUsingSlidingWindow(), RootMeanSquaredErrorUsingSlidingWindow()
for _ in range(2):
    batch = torch.rand(2, 1, 16, 16, generator=generator), torch.rand(2, 1, 16, 16, generator=generator)
    once.update(*batch)
    often.update(*batch)
    often.compute()
print(often.compute(), once.compute(), "expected to be equal")
raise SystemExit(not torch.allclose(often.compute(), once.compute()))
