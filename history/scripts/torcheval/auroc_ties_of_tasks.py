"""Equal scores in one of two tasks."""

import torch
from torcheval.metrics.functional import binary_auroc

scores = torch.tensor([[0.5, 0.5, 0.2, 0.8], [0.1, 0.2, 0.3, 0.4]])
target = torch.tensor([[1, 0, 0, 1], [0, 1, 0, 1]])
both = binary_auroc(scores, target, num_tasks=2)
alone = torch.stack([binary_auroc(s, t) for s, t in zip(scores, target, strict=False)]).flatten()
print(both, alone, "expected to be equal")
raise SystemExit(not torch.allclose(both.double(), alone.double()))
