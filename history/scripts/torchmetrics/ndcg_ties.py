"""Documents with equal scores, in two orders."""

import torch
from torchmetrics.functional.retrieval import retrieval_normalized_dcg

scores = torch.tensor([0.5, 0.5, 0.5, 0.5])
one = retrieval_normalized_dcg(scores, torch.tensor([1, 0, 0, 0])).item()
other = retrieval_normalized_dcg(scores, torch.tensor([0, 0, 0, 1])).item()
print(one, other, "expected to be equal")
raise SystemExit(abs(one - other) > 1e-6)
