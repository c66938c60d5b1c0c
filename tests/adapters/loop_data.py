"""Rows of numbers and a network, for tests of the adapters of loops."""

from __future__ import annotations

import torch

from pytest_evalcheck import LoopData

ROWS = [(0, (0.5, 1.0, -1.0)), (1, (2.0, 0.0, 0.25)), (0, (-1.0, 0.5, 0.0)), (1, (0.0, 0.0, 3.0)), (1, (1.0, 1.0, 1.0))]


def collate(rows):
    return {"x": torch.tensor([row[1] for row in rows]), "labels": torch.tensor([row[0] for row in rows])}


def data(count=5):
    return LoopData(ROWS[:count], collate)


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 2))


def mean_loss(model, rows=ROWS):
    """One row at a time, in float64."""
    import copy

    own = copy.deepcopy(model).double().eval()
    with torch.no_grad():
        losses = [-own(torch.tensor([x], dtype=torch.float64)).log_softmax(-1)[0, label] for label, x in rows]
    return float(sum(losses) / len(losses))
