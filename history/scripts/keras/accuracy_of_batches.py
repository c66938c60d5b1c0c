"""Batches of three and one labels."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

metric = keras.metrics.BinaryAccuracy()
metric.update_state(np.array([1, 1, 1]), np.array([0.9, 0.9, 0.9]))
metric.update_state(np.array([1]), np.array([0.1]))
value = float(metric.result())
print(value, "expected 0.75")
raise SystemExit(abs(value - 0.75) > 1e-6)
