"""Statistics of three ranks, one of them with one sample."""

import itertools

import torch
from torchmetrics.regression import PearsonCorrCoef
from torchmetrics.regression.pearson import _final_aggregation

generator = torch.Generator().manual_seed(0)
preds, target = torch.rand(9, generator=generator), torch.rand(9, generator=generator)
names = ("mean_x", "mean_y", "var_x", "var_y", "corr_xy", "n_total")
wrong = False
for cuts in ((0, 4, 9), (0, 1, 9), (0, 0, 9), (0, 8, 9)):
    ranks = []
    for start, end in itertools.pairwise(cuts):
        metric = PearsonCorrCoef()
        if end > start:
            metric.update(preds[start:end], target[start:end])
        ranks.append(metric)
    whole = PearsonCorrCoef()
    whole.update(preds, target)
    states = [torch.stack([getattr(rank, name).reshape(()) for rank in ranks]) for name in names]
    merged = _final_aggregation(*states)
    var_x, var_y, corr = merged[2], merged[3], merged[4]
    value, expected = (corr / (var_x * var_y).sqrt()).item(), whole.compute().item()
    print(cuts, value, "expected", expected)
    wrong |= not abs(value - expected) < 1e-4
raise SystemExit(wrong)
