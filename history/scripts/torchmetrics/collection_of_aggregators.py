"""A sum and a maximum in one collection."""

import torch
from torchmetrics import MaxMetric, MetricCollection, SumMetric

metrics = MetricCollection({"sum": SumMetric(), "largest": MaxMetric()})
for value in (1.0, 2.0):
    metrics.update(value=torch.tensor(value))
found = {name: float(value) for name, value in metrics.compute().items()}
print(found, "expected 3.0 and 2.0")
raise SystemExit(found != {"sum": 3.0, "largest": 2.0})
