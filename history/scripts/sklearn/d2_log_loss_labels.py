"""A label that is declared and not there."""

import numpy as np
from sklearn.metrics import d2_log_loss_score

labels = [0, 1, 2]
probabilities = np.array([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.5, 0.4, 0.1]])
try:
    value = d2_log_loss_score([0, 1, 0], probabilities, labels=labels)
except Exception as error:
    print(type(error).__name__, error)
    raise SystemExit(1) from None
print(value)
raise SystemExit(value != value)
