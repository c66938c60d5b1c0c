"""A relevant document with a score of 0."""

import torch
from torchmetrics.functional.retrieval import retrieval_reciprocal_rank

value = retrieval_reciprocal_rank(torch.tensor([0.0, 0.0]), torch.tensor([True, False])).item()
print(value, "expected 0.0: nothing is retrieved")
raise SystemExit(value != 0)
