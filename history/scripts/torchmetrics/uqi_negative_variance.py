"""Nearly constant images."""

import torch
from torchmetrics.functional.image import universal_image_quality_index

generator = torch.Generator().manual_seed(0)
image = 100 + torch.rand(1, 1, 32, 32, generator=generator) * 1e-2
other = 100 + torch.rand(1, 1, 32, 32, generator=generator) * 1e-2
value = universal_image_quality_index(image, other).item()
print(value, "expected within [-1, 1]")
raise SystemExit(not -1.001 <= value <= 1.001)
