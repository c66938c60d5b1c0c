"""Memory for two queries of high numbers."""

import resource

import torch
from torchmetrics.retrieval import RetrievalMAP

metric = RetrievalMAP()
indexes = torch.tensor([0, 0, 300_000_000, 300_000_000])
metric.update(torch.tensor([0.1, 0.9, 0.2, 0.8]), torch.tensor([0, 1, 0, 1]), indexes=indexes)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
metric.compute()
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(grown, "KiB")
raise SystemExit(grown > 500_000)
