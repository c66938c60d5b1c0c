"""compute() is called twice, and once more after another batch."""

import torch
from torchmetrics.regression import PearsonCorrCoef

generator = torch.Generator().manual_seed(0)
batches = [(torch.rand(8, generator=generator), torch.rand(8, generator=generator)) for _ in range(2)]
once, often = PearsonCorrCoef(), PearsonCorrCoef()
for batch in batches:
    once.update(*batch)
    often.update(*batch)
    often.compute()
print(often.compute(), once.compute(), "expected to be equal")
raise SystemExit(not torch.allclose(often.compute(), once.compute()))
