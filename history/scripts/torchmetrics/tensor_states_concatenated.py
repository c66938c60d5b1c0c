"""A state that is a tensor and is to be concatenated, fed through forward()."""

import torch
from torchmetrics import Metric


class Samples(Metric):
    full_state_update = False

    def __init__(self):
        super().__init__()
        self.add_state("values", default=torch.tensor([]), dist_reduce_fx="cat")

    def update(self, x):
        self.values = torch.cat([self.values, x])

    def compute(self):
        return self.values


metric = Samples()
try:
    metric(torch.tensor([1.0, 2.0]))
    metric(torch.tensor([3.0, 4.0]))
    value = metric.compute()
except Exception as error:
    print(type(error).__name__, error)
    raise SystemExit(1) from None
print(value, "expected four values")
raise SystemExit(len(value) != 4)
