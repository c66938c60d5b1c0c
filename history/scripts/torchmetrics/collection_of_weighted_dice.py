"""A weighted score beside a macro one."""

import torch
from torchmetrics import MetricCollection
from torchmetrics.segmentation import DiceScore


def members():
    options = {"num_classes": 3, "input_format": "index"}
    return {"macro": DiceScore(average="macro", **options), "weighted": DiceScore(average="weighted", **options)}


generator = torch.Generator().manual_seed(0)
grouped, apart = MetricCollection(members()), MetricCollection(members(), compute_groups=False)
try:
    for _ in range(3):
        batch = torch.randint(3, (2, 4, 4), generator=generator), torch.randint(3, (2, 4, 4), generator=generator)
        grouped.update(*batch)
        apart.update(*batch)
    one, other = grouped.compute(), apart.compute()
except Exception as error:
    print(type(error).__name__, error)
    raise SystemExit(1) from None
print(one, other, "expected to be equal")
raise SystemExit(any(not torch.allclose(one[name], other[name]) for name in other))
