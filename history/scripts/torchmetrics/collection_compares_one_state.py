"""Members that agree in their first state only."""

import torch
from torchmetrics import Metric, MetricCollection


class Pair(Metric):
    full_state_update = False

    def __init__(self, factor):
        super().__init__()
        self.factor = factor
        self.add_state("count", default=torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("total", default=torch.tensor(0.0), dist_reduce_fx="sum")

    def update(self, preds, target):
        self.count += len(preds)
        self.total += self.factor * (preds - target).abs().sum()

    def compute(self):
        return self.total / self.count


metrics = MetricCollection({"one": Pair(1), "two": Pair(2)})
for _ in range(2):
    metrics.update(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 0.0]))
value = {name: float(each) for name, each in metrics.compute().items()}
print(value, "expected 1.5 and 3.0")
raise SystemExit(value != {"one": 1.5, "two": 3.0})
