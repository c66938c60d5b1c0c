from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pytest_evalcheck.guard import Snapshot


def batch() -> dict[str, Any]:
    return {
        "ids": torch.arange(6).reshape(2, 3),
        "labels": torch.tensor([[1, 7], [2, 7]]),
        "nested": [torch.zeros(2), {"text": ["a", "b"], "scores": np.ones(2)}],
    }


def test_a_batch_that_is_left_alone_has_no_changes() -> None:
    given = batch()
    before = Snapshot(given)
    given["ids"].float().mul_(2)
    assert before.changes() == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda b: b.pop("labels"), "batch['labels'] is gone"),
        (lambda b: b.update(extra=1), "batch['extra'] was added"),
        (lambda b: b["labels"].__setitem__((1, 1), -100), "batch['labels'][1, 1]: 7 became -100"),
        (lambda b: b["labels"].data.view(-1).__setitem__(3, -100), "batch['labels'][1, 1]: 7 became -100"),
        (lambda b: b["nested"][0].numpy().__setitem__(1, 5.0), "batch['nested'][0][1]: 0.0 became 5.0"),
        (lambda b: b["nested"][1]["scores"].__setitem__(0, np.nan), "batch['nested'][1]['scores'][0]: 1.0 became nan"),
        (lambda b: b["nested"][1]["text"].__setitem__(0, "z"), "'a' was replaced by 'z'"),
        (lambda b: b["nested"][1]["text"].append("c"), "batch['nested'][1]['text'][2] was added"),
        (lambda b: b.update(ids=b["ids"].clone()), "batch['ids']: "),
        (lambda b: b["ids"].t_(), "batch['ids']: layout"),
        (lambda b: b.update(nested=tuple(b["nested"])), "batch['nested']: a list became a tuple"),
        (lambda b: b.update(ids=b.pop("ids")), "batch: keys ['ids', 'labels', 'nested'] became"),
    ],
)
def test_every_change_is_named_with_its_place(change: Callable[[dict[str, Any]], Any], said: str) -> None:
    given = batch()
    before = Snapshot(given)
    change(given)
    assert any(said in line for line in before.changes()), before.changes()
