"""A class that is absent from predictions and labels."""

import torch
from torchmetrics.segmentation import MeanIoU

metric = MeanIoU(num_classes=3, input_format="index")
image = torch.tensor([[[0, 1], [1, 0]]])
metric.update(image, image)
value = metric.compute().item()
print(value, "expected 1.0")
raise SystemExit(abs(value - 1) > 1e-6)
