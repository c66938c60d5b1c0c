"""Values that are kept for one state, and copies of results."""

from __future__ import annotations

import copy
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

from pytest_evalcheck.fixes import cached_compute, copy_result


class Mean:
    def __init__(self, module: Any = None) -> None:
        self.total, self.rows, self.options, self.module = torch.zeros(2), [], {"scale": 1.0}, module
        self.calls = 0

    @cached_compute
    def compute(self):
        calls.append(1)
        return {"mean": self.total[0], "rows": len(self.rows), "scale": self.options["scale"]}


calls: list[int] = []


@pytest.fixture(autouse=True)
def _no_calls():
    calls.clear()


def test_the_value_is_computed_once_and_each_result_is_a_copy():
    mean = Mean()
    first = mean.compute()
    first["mean"] += 1
    first["rows"] = 7
    assert mean.compute() == {"mean": 0, "rows": 0, "scale": 1.0}
    assert len(calls) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda mean: mean.total.add_(1),
        lambda mean: setattr(mean, "total", torch.zeros(2)),
        lambda mean: mean.rows.append(torch.ones(1)),
        lambda mean: mean.options.update(scale=2.0),
        lambda mean: mean.options.update(scale=True),
        lambda mean: setattr(mean, "extra", None),
        lambda mean: mean.module.eval(),
    ],
)
def test_a_change_of_any_attribute_drops_the_value(change):
    mean = Mean(nn.Linear(1, 1))
    mean.compute()
    change(mean)
    mean.compute()
    mean.compute()
    assert len(calls) == 2


def test_a_tensor_at_the_address_of_one_that_is_gone_is_another_one():
    mean = Mean()
    for number in range(200):
        mean.total = torch.full((2,), float(number))
        assert mean.compute()["mean"] == number


def test_what_cannot_be_compared_is_computed_each_time():
    mean = Mean()
    mean.rows = [np.zeros(2)]
    mean.compute()
    mean.compute()
    assert len(calls) == 2
    with torch.inference_mode():
        mean.rows = [torch.zeros(1)]
    mean.compute()
    mean.compute()
    assert len(calls) == 4


def test_copies_and_pickles_begin_without_a_value():
    mean = Mean()
    mean.compute()
    for copied in (copy.deepcopy(mean), pickle.loads(pickle.dumps(mean)), copy.copy(mean)):
        copied.total = copied.total + 1
        assert copied.compute()["mean"] == 1
        assert mean.compute()["mean"] == 0


def test_objects_that_name_each_other_have_a_state():
    mean = Mean()
    mean.options["self"] = mean
    mean.compute()
    mean.compute()
    assert len(calls) == 1


def test_it_computes_within_torch_compile():
    class Total(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.ones(2))

        @cached_compute
        def compute(self):
            return self.total * 2

    total = Total()
    compiled = torch.compile(total.compute, backend="eager")
    assert compiled().tolist() == [2, 2]
    total.total += 1
    assert compiled().tolist() == [4, 4]


class Pair(NamedTuple):
    low: Any
    high: Any


def test_a_copy_keeps_types_and_shares_nothing():
    array, tensor = np.ones(2), torch.ones(2, requires_grad=True)
    copied = copy_result({"pair": Pair(tensor, [array]), "text": "a", "labels": {1}})
    assert isinstance(copied["pair"], Pair)
    assert copied["pair"].low is not tensor
    assert copied["pair"].low.requires_grad
    copied["pair"].high[0][0] = 5
    copied["labels"].add(2)
    assert array.tolist() == [1, 1]
