"""Nearly constant images."""

import torch
from torchmetrics.functional.image import structural_similarity_index_measure

generator = torch.Generator().manual_seed(0)
image = 1000 + torch.rand(1, 1, 32, 32, generator=generator) * 1e-3
other = 1000 + torch.rand(1, 1, 32, 32, generator=generator) * 1e-3
value = structural_similarity_index_measure(image, other, data_range=1e-3).item()
print(value, "expected within [-1, 1]")
raise SystemExit(not -1.001 <= value <= 1.001)
