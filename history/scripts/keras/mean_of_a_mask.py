"""Masked values without weights."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import torch

values = torch.tensor([[1.0, 3.0], [5.0, 100.0]])
values._keras_mask = torch.tensor([[True, True], [True, False]])
metric = keras.metrics.Mean()
metric.update_state(values)
value = float(metric.result())
print(value, "expected 3.0")
raise SystemExit(abs(value - 3) > 1e-6)
