"""The mean similarity with a uniform kernel of five."""

import torch
from torchmetrics.functional.image import structural_similarity_index_measure

generator = torch.Generator().manual_seed(0)
image = torch.rand(1, 1, 16, 16, generator=generator)
other = image.clone()
other[..., :2, :] = 0
options = {"gaussian_kernel": False, "kernel_size": 3, "data_range": 1.0}
narrow = structural_similarity_index_measure(image, other, sigma=0.3, **options).item()
wide = structural_similarity_index_measure(image, other, sigma=1.5, **options).item()
print(narrow, wide, "expected to be equal: sigma means nothing for a uniform kernel")
raise SystemExit(abs(narrow - wide) > 1e-6)
