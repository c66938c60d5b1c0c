"""A pickled metric."""

import pickle

import torch
from ignite.metrics import CohenKappa

metric = CohenKappa()
metric.update((torch.tensor([0, 1, 1]), torch.tensor([0, 1, 0])))
try:
    value = pickle.loads(pickle.dumps(metric)).compute()
except Exception as error:
    print(type(error).__name__, error)
    raise SystemExit(1) from None
print(value, metric.compute())
raise SystemExit(value != metric.compute())
