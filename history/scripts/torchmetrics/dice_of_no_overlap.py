"""A sample of which nothing is found."""

import torch
from torchmetrics.segmentation import DiceScore

metric = DiceScore(num_classes=3, average="macro", input_format="index")
metric.update(torch.tensor([[0, 0], [0, 0]]).unsqueeze(0), torch.tensor([[1, 1], [1, 1]]).unsqueeze(0))
value = metric.compute().item()
print(value, "expected 0.0: class 2 is neither predicted nor true")
raise SystemExit(abs(value) > 1e-6)
