"""Two wrappers whose results have the same keys."""

import torch
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassPrecision, MulticlassRecall
from torchmetrics.wrappers import ClasswiseWrapper

labels = ["a", "b", "c"]
members = {
    "recall": ClasswiseWrapper(MulticlassRecall(num_classes=3, average=None), labels=labels, prefix="x_"),
    "precision": ClasswiseWrapper(MulticlassPrecision(num_classes=3, average=None), labels=labels, prefix="x_"),
}
metrics = MetricCollection(members)
metrics.update(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 2]))
found = metrics.compute()
print(found, "expected six values")
raise SystemExit(len(found) != 6)
