"""The best three of five labels."""

import torch
from torcheval.metrics.functional import topk_multilabel_accuracy

scores = torch.tensor([[0.9, 0.8, 0.7, 0.1, 0.0]])
value = topk_multilabel_accuracy(scores, torch.tensor([[1, 1, 1, 0, 0]]), criteria="exact_match", k=3).item()
print(value, "expected 1.0")
raise SystemExit(value != 1)
