"""One weight for several values."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

metric = keras.metrics.Mean()
metric.update_state(np.array([1.0, 3.0]), sample_weight=np.array(2.0))
one = float(metric.result())
other = keras.metrics.Mean()
other.update_state(np.array([[1.0, 3.0], [5.0, 7.0]]), sample_weight=np.array([[1.0], [1.0]]))
two = float(other.result())
print(one, two, "expected 2.0 and 4.0")
raise SystemExit(abs(one - 2) > 1e-6 or abs(two - 4) > 1e-6)
