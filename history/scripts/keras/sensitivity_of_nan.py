"""A weight that is infinite, times nothing."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

metric = keras.metrics.TruePositives()
metric.update_state(np.array([0, 1]), np.array([0.1, 0.9]), sample_weight=np.array([np.inf, 1.0]))
value = float(metric.result())
print(value, "expected 1.0")
raise SystemExit(value != 1)
