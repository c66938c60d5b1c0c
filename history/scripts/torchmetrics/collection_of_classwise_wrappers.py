"""A classwise wrapper in a group, computed twice with an update between."""

import torch
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassPrecision, MulticlassRecall
from torchmetrics.wrappers import ClasswiseWrapper


def members():
    return {
        "macro": MulticlassRecall(num_classes=2, average="macro"),
        "recall": ClasswiseWrapper(MulticlassRecall(num_classes=2, average=None), prefix="r_"),
        "precision": ClasswiseWrapper(MulticlassPrecision(num_classes=2, average=None), prefix="p_"),
    }


grouped, apart = MetricCollection(members()), MetricCollection(members(), compute_groups=False)
for preds, target in (([0, 1], [0, 1]), ([1, 1], [0, 1]), ([0, 0], [1, 0])):
    for metrics in (grouped, apart):
        metrics.update(torch.tensor(preds), torch.tensor(target))
one, other = grouped.compute(), apart.compute()
print(one, other, "expected to be equal")
raise SystemExit(any(not torch.allclose(one[name], other[name]) for name in other))
