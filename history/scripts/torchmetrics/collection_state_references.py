"""A collection whose members are looked at before the first update."""

import torch
from torchmetrics import MetricCollection
from torchmetrics.classification import BinaryAccuracy, BinaryPrecision, BinaryRecall


def members():
    return [BinaryPrecision(), BinaryRecall(), BinaryAccuracy()]


wrong = False
for look in (False, True):
    grouped, apart = MetricCollection(members()), MetricCollection(members(), compute_groups=False)
    for preds, target in (([0, 1], [0, 1]), ([1, 1], [0, 1]), ([0, 0], [1, 0])):
        for metrics in (grouped, apart):
            metrics.update(torch.tensor(preds), torch.tensor(target))
        if look:
            dict(grouped.items())
    grouped.reset()
    apart.reset()
    for metrics in (grouped, apart):
        metrics.update(torch.tensor([1, 0, 1]), torch.tensor([0, 0, 1]))
        metrics.update(torch.tensor([1, 1, 1]), torch.tensor([0, 1, 1]))
    one, other = grouped.compute(), apart.compute()
    print(one, other, "expected to be equal")
    wrong |= any(not torch.allclose(one[name], other[name]) for name in other)
copied = MetricCollection(members())
copied.update(torch.tensor([0, 1]), torch.tensor([0, 1]))
fresh = copied.clone(prefix="x/")
fresh.reset()
fresh.update(torch.tensor([1, 0, 1]), torch.tensor([0, 0, 1]))
before = {name: float(value) for name, value in copied.compute().items()}
print(before, "expected 1.0")
wrong |= set(before.values()) != {1.0}
raise SystemExit(wrong)
