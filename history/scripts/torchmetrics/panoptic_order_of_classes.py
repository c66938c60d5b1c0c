"""The order of the classes of a result."""

import torch
from torchmetrics.detection import PanopticQuality

things = {8, 1}  # a set of these numbers is iterated as 8, 1
metric = PanopticQuality(things=things, stuffs={0}, return_per_class=True)
image = torch.tensor([[[1, 0], [1, 0], [8, 0], [0, 0]]])
said = torch.tensor([[[1, 0], [1, 0], [0, 0], [8, 0]]])
metric.update(said, image)
value = metric.compute().flatten()
print(value, "expected 1 for class 1, which comes before class 8")
raise SystemExit(value[0].item() != 1)
