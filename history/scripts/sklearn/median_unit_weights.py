"""Weights of 1."""

import numpy as np
from sklearn.metrics import median_absolute_error

truth, said = np.array([0.0, 0.0, 0.0, 0.0]), np.array([1.0, 2.0, 3.0, 4.0])
value, weighted = median_absolute_error(truth, said), median_absolute_error(truth, said, sample_weight=np.ones(4))
print(value, weighted, "expected to be equal")
raise SystemExit(value != weighted)
