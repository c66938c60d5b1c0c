"""Weights of 1."""

import numpy as np
from sklearn.metrics import d2_absolute_error_score

truth, said = np.array([1.0, 2.0, 4.0, 8.0]), np.array([1.0, 2.5, 3.0, 6.0])
value, weighted = d2_absolute_error_score(truth, said), d2_absolute_error_score(truth, said, sample_weight=np.ones(4))
print(value, weighted, "expected to be equal")
raise SystemExit(abs(value - weighted) > 1e-9)
