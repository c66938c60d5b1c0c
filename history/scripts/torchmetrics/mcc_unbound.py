"""All small confusion matrices: a value, and for a matrix of ordinary cells the usual formula."""

import itertools
import math

import torch
from torchmetrics.functional.classification.matthews_corrcoef import _matthews_corrcoef_reduce

wrong = []
for tn, fp, fn, tp in itertools.product(range(3), repeat=4):
    if tn + fp + fn + tp == 0:
        continue
    try:
        value = _matthews_corrcoef_reduce(torch.tensor([[tn, fp], [fn, tp]])).item()
    except UnboundLocalError as error:
        wrong.append(((tn, fp, fn, tp), str(error)))
        continue
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    if product and abs(value - (tp * tn - fp * fn) / math.sqrt(product)) > 1e-5:
        wrong.append(((tn, fp, fn, tp), value))
print(wrong[:4])
raise SystemExit(bool(wrong))
