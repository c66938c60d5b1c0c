"""Values of a collection, computed twice."""

import torch
from torchmetrics import MetricCollection
from torchmetrics.classification import BinaryAccuracy, BinaryPrecision, BinaryRecall


def members():
    return [BinaryPrecision(), BinaryRecall(), BinaryAccuracy()]


grouped, apart = MetricCollection(members()), MetricCollection(members(), compute_groups=False)
wrong = False
for preds, target in (([0, 1], [0, 1]), ([1, 1], [0, 1]), ([0, 0], [1, 0])):
    for metrics in (grouped, apart):
        metrics.update(torch.tensor(preds), torch.tensor(target))
        metrics.compute()
    one, other = grouped.compute(), apart.compute()
    wrong |= any(not torch.allclose(one[name], other[name]) for name in other)
print(one, other, "expected to be equal")
raise SystemExit(wrong)
