"""Two ranks whose results are gathered."""

import torch
from torchmetrics.image import StructuralSimilarityIndexMeasure

generator = torch.Generator().manual_seed(0)
images = torch.rand(4, 1, 32, 32, generator=generator)
ranks = [StructuralSimilarityIndexMeasure(reduction="none", data_range=1.0) for _ in range(2)]
for rank, metric in enumerate(ranks):
    metric.update(images[2 * rank : 2 * rank + 2], images[2 * rank : 2 * rank + 2] * 0.9)
found = {id(t): i for i, t in enumerate(())}


def gather(tensor, group=None):
    return [tensor, tensor]


ranks[0].dist_sync_fn, ranks[0].distributed_available_fn = gather, lambda: True
try:
    value = ranks[0].compute()
except Exception as error:
    print(type(error).__name__, error)
    raise SystemExit(1) from None
print(value, "expected four values")
raise SystemExit(value.numel() != 4)
