"""The mean over the batch, for each class."""

import torch
from monai.metrics import GeneralizedDiceScore

metric = GeneralizedDiceScore(reduction="mean_batch")
image = torch.nn.functional.one_hot(torch.tensor([[[0, 1], [1, 2]]]), 3).movedim(-1, 1)
other = torch.nn.functional.one_hot(torch.tensor([[[0, 1], [2, 2]]]), 3).movedim(-1, 1)
metric(other, image)
value = metric.aggregate()
print(value, "expected a value for each of three classes")
raise SystemExit(value.numel() != 3)
