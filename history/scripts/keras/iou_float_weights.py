"""Counts beyond what float32 can hold."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

metric = keras.metrics.MeanIoU(num_classes=2)
metric.total_cm.assign(np.array([[2**24, 0], [0, 2**24]]))
for _ in range(8):
    metric.update_state(np.array([0]), np.array([0]))
value = float(keras.ops.convert_to_numpy(metric.total_cm)[0, 0])
print(value, "expected", 2**24 + 8)
raise SystemExit(value != 2**24 + 8)
