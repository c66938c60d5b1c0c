"""A label that is no class and is not ignored."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

metric = keras.metrics.MeanIoU(num_classes=2)
try:
    metric.update_state(np.array([0, 1, 0, 1]), np.array([0, 1, 2, 1]))
    value = float(metric.result())
except Exception as error:
    print(type(error).__name__, error)
    raise SystemExit(1) from None
print(value, "expected 1.0: a prediction of no class is left out")
raise SystemExit(abs(value - 1) > 1e-6)
