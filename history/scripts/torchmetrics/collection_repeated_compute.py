"""The value of a collection that is asked for twice."""

import torch
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassConfusionMatrix

metrics = MetricCollection([MulticlassAccuracy(num_classes=3), MulticlassConfusionMatrix(num_classes=3)])
wrong = False
for seed in range(3):
    generator = torch.Generator().manual_seed(seed)
    preds, target = torch.randint(3, (10,), generator=generator), torch.randint(3, (10,), generator=generator)
    metrics.update(preds, target)
    first, second = metrics.compute(), metrics.compute()
    wrong |= any(not torch.equal(first[name], second[name]) for name in first)
    metrics.reset()
from torchmetrics.classification import MulticlassF1Score, MulticlassPrecision

metrics = MetricCollection([MulticlassF1Score(num_classes=3), MulticlassPrecision(num_classes=3)])
for seed in range(3):
    generator = torch.Generator().manual_seed(seed)
    preds, target = torch.randint(3, (10,), generator=generator), torch.randint(3, (10,), generator=generator)
    metrics.update(preds, target)
    first, second = metrics.compute(), metrics.compute()
    wrong |= any(not torch.equal(first[name], second[name]) for name in first)
print(first, second)
raise SystemExit(wrong)
