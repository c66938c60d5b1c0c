"""A keyword for the metric in permutation-wise mode."""

import torch
from torchmetrics.functional.audio import permutation_invariant_training


def error(preds, target, weight=1.0):
    return -weight * (preds - target).abs().mean((-1, -2))


generator = torch.Generator().manual_seed(0)
preds, target = torch.rand(1, 2, 8, generator=generator), torch.rand(1, 2, 8, generator=generator)
options = {"mode": "permutation-wise", "eval_func": "max"}
plain, _ = permutation_invariant_training(preds, target, error, **options)
double, _ = permutation_invariant_training(preds, target, error, weight=2.0, **options)
print(plain, double, "expected twice as much")
raise SystemExit(not torch.allclose(double, 2 * plain))
