"""Rows that spread over all directions that they can."""

import torch
from monai.metrics import EmbeddingCollapseMetric

import inspect

import monai.metrics.embedding_collapse as module

source = inspect.getsource(module)
print("shape[0] - 1" in source)
raise SystemExit("emb.shape[0] - 1" not in source)
