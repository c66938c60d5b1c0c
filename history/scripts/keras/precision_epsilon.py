"""The precision of one sample that is right."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras

metric = keras.metrics.Precision()
metric.update_state([1], [1.0])
value = float(metric.result())
print(value, "expected 1.0")
raise SystemExit(value != 1)
