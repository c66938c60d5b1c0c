"""A class whose precision and recall are 0."""

from sklearn.metrics import f1_score

value = f1_score([0, 1], [1, 0], zero_division=1.0, average="macro")
print(value, "expected 0.0")
raise SystemExit(value != 0)
