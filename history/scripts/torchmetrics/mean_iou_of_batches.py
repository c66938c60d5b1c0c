"""The mean over a stream of three batches."""

import torch
from torchmetrics.segmentation import MeanIoU

generator = torch.Generator().manual_seed(0)
preds = torch.randint(0, 2, (6, 3, 4, 4), generator=generator)
target = torch.randint(0, 2, (6, 3, 4, 4), generator=generator)
whole, cut = MeanIoU(num_classes=3), MeanIoU(num_classes=3)
whole.update(preds, target)
for start in (0, 2, 4):
    cut.update(preds[start : start + 2], target[start : start + 2])
print(cut.compute(), whole.compute(), "expected to be equal")
raise SystemExit(not torch.allclose(cut.compute(), whole.compute()))
